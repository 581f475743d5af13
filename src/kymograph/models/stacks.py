"""Deep stacks of equal layers, plain or residual, R replicas at once.

    plain               h <- relu(W h + b)
    residual            h <- h + s * relu(W h + b)          s fixed per replica: 1, or 1/sqrt(layers)
    residual, learned   h <- h + a_l * relu(W h + b)        a_l a learned scalar per layer, starting at 0
    residual, pre-norm  h <- h + s * relu(W LN(h) + b)      LN without learned scale or shift

Plain and residual replicas can share a stack: the plain ones come first, and the skip is added to the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kymograph import streams
from kymograph.models.flat import FlatParameters

NORM_EPS = 1e-5  # inside LayerNorm, as in torch


@dataclass(frozen=True)
class Wiring:
    """How the layers of a whole stack of replicas are joined."""

    scales: tuple[float | None, ...]
    """Per replica the fixed factor on a residual branch, or None for a plain network; plain ones first."""
    prenorm: bool = False
    """Whether every replica's branches normalise their input."""
    learned: bool = False
    """Whether every replica's branch factors are learned, starting at zero."""

    def __post_init__(self) -> None:
        kinds = [scale is not None for scale in self.scales]
        if kinds != sorted(kinds):
            raise ValueError("plain replicas must come before residual ones")

    @property
    def plain(self) -> int:
        """How many replicas are plain."""
        return sum(scale is None for scale in self.scales)

    @property
    def fixed_scale(self) -> Tensor | None:
        """The residual replicas' factors, shape (residual, 1, 1), or None if all are 1."""
        scales = [scale for scale in self.scales if scale is not None]
        return None if all(scale == 1.0 for scale in scales) else torch.tensor(scales)[:, None, None]


def initial_layers(seed: int, layers: int, width: int, learned: bool = False) -> dict[str, Tensor]:
    """Returns Kaiming-normal (fan-in, ReLU) weights, zero biases and, if learned, zero branch factors."""
    draw = streams.generator(seed, "init")
    std = math.sqrt(2.0 / width)
    tensors: dict[str, Tensor] = {}
    for layer in range(layers):
        tensors[f"{layer}.weight"] = torch.empty(width, width).normal_(0.0, std, generator=draw)
        tensors[f"{layer}.bias"] = torch.zeros(width)
        if learned:
            tensors[f"{layer}.scale"] = torch.zeros(())
    return tensors


class Affine(nn.Module):
    """``W h + b`` with its own W and b for every replica; its output is the layer's pre-activation."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias  # (R, out, in), (R, out)

    def forward(self, h: Tensor) -> Tensor:
        """Maps (R, B, in) to (R, B, out)."""
        return torch.baddbmm(self.bias[:, None], h, self.weight.transpose(1, 2))


class Layer(nn.Module):
    """One layer of a stack; its output is the next point of the stream."""

    def __init__(self, affine: Affine, plain: int, prenorm: bool, scale: Tensor | None) -> None:
        super().__init__()
        self.affine, self.plain, self.prenorm = affine, plain, prenorm
        self.scale = scale  # of the residual replicas: a constant (residual, 1, 1), a parameter (R,), or None for 1

    def forward(self, h: Tensor) -> Tensor:
        """Maps the stream (R, B, width) to its next point."""
        inner = nn.functional.layer_norm(h, h.shape[-1:], eps=NORM_EPS) if self.prenorm else h
        branch = nn.functional.relu(self.affine(inner))
        if self.plain == len(h):
            return branch
        residual = branch[self.plain :]
        if self.scale is not None:
            residual = residual * self.scale.view(-1, 1, 1)
        residual = h[self.plain :] + residual
        return torch.cat([branch[: self.plain], residual]) if self.plain else residual


class LayerStack(nn.Module):
    """R networks of ``layers`` equal layers, joined as ``wiring`` says."""

    def __init__(self, layers: int, width: int, wiring: Wiring, device: torch.device | str = "cpu") -> None:
        super().__init__()
        shapes: dict[str, Sequence[int]] = {}
        for layer in range(layers):
            shapes |= {f"{layer}.weight": (width, width), f"{layer}.bias": (width,)}
            if wiring.learned:
                shapes[f"{layer}.scale"] = ()
        self.wiring = wiring
        self.flat = FlatParameters(shapes, len(wiring.scales), device, rows=False)
        views = self.flat.views
        fixed = wiring.fixed_scale
        fixed = None if fixed is None else fixed.to(device)
        self.blocks = nn.ModuleList(
            Layer(
                Affine(views[f"{layer}.weight"], views[f"{layer}.bias"]),
                wiring.plain,
                wiring.prenorm,
                views.get(f"{layer}.scale", fixed),
            )
            for layer in range(layers)
        )
        self._arithmetic = [_LayerArithmetic(block) for block in self.blocks]  # type: ignore[arg-type]
        self._memory: _Memory | None = None

    def forward(self, h: Tensor) -> Tensor:
        """Maps inputs (R, B, width) to outputs of the same shape."""
        for block in self.blocks:
            h = block(h)
        return h

    def closed_form_gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Fills the gradient of each replica's mean squared error and returns that error, shape (R,).

        What autograd would do, to the bit, without its graph and its fresh memory: every intermediate has its
        own place, reused from step to step, and weight gradients are written where they belong.
        """
        if self._memory is None or self._memory.above.shape != x.shape:
            self._memory = _Memory(x.shape, len(self.blocks), self.flat.values)
        memory = self._memory
        stream = [x]
        for arithmetic, place in zip(self._arithmetic, memory.layers, strict=True):
            stream.append(arithmetic.forward(stream[-1], place))
        error = torch.sub(stream[-1], y, out=memory.above)
        loss = error.square().mean(dim=(1, 2))
        error.mul_(2.0 / (error.shape[1] * error.shape[2]))  # dLoss/dh at the top
        for number in reversed(range(len(self._arithmetic))):
            self._arithmetic[number].backward(stream[number], memory.layers[number], memory, number > 0)
        return loss


class _Place:
    """The memory of one layer's forward pass, each (R, B, width)."""

    def __init__(self, shape: torch.Size, like: Tensor) -> None:
        self.pre, self.out = like.new_empty(shape), like.new_empty(shape)
        self.normed = self.mean = self.rstd = like.new_empty(0)


class _Memory:
    """The memory of one pass through a stack, for one shape of batch."""

    def __init__(self, shape: torch.Size, layers: int, like: Tensor) -> None:
        self.layers = [_Place(shape, like) for _ in range(layers)]
        self.above, self.below, self.d_pre = (like.new_empty(shape) for _ in range(3))


class _LayerArithmetic:
    """One layer's forward and backward pass on plain tensors, into memory that is already there."""

    def __init__(self, layer: Layer) -> None:
        self.plain, self.prenorm = layer.plain, layer.prenorm
        self.weight, self.bias_row = layer.affine.weight.detach(), layer.affine.bias.detach()[:, None]
        self.weight_t = self.weight.transpose(1, 2)
        self.d_weight, self.d_bias = layer.affine.weight.grad, layer.affine.bias.grad
        self.scale = None if layer.scale is None else layer.scale.detach().view(-1, 1, 1)
        self.d_scale = None if layer.scale is None else layer.scale.grad
        self.all_plain = self.plain == len(self.weight)

    def forward(self, h: Tensor, place: _Place) -> Tensor:
        inner = h
        if self.prenorm:
            inner, place.mean, place.rstd = torch.native_layer_norm(h, h.shape[-1:], None, None, NORM_EPS)
            place.normed = inner
        torch.baddbmm(self.bias_row, inner, self.weight_t, out=place.pre)
        torch.clamp_min(place.pre, 0, out=place.out)
        if not self.all_plain:
            residual = place.out[self.plain :]
            if self.scale is not None:
                residual.mul_(self.scale)
            residual.add_(h[self.plain :])
        return place.out

    def backward(self, below: Tensor, place: _Place, memory: _Memory, need_input: bool) -> None:
        """Turns dLoss/dh above the layer (``memory.above``) into that below it, in the same place."""
        above = through = memory.above
        if self.scale is not None:
            if self.d_scale is not None:  # every replica is residual here
                branch = torch.clamp_min(place.pre, 0, out=memory.below)
                torch.sum(branch.mul_(above), (1, 2), out=self.d_scale)
            through = memory.below.copy_(above)
            through[self.plain :].mul_(self.scale)
        d_pre = torch.ops.aten.threshold_backward.grad_input(through, place.pre, 0, grad_input=memory.d_pre)
        inner = place.normed if self.prenorm else below
        torch.bmm(d_pre.transpose(1, 2), inner, out=self.d_weight)
        torch.sum(d_pre, 1, out=self.d_bias)
        if not need_input:
            return
        d_inner = torch.bmm(d_pre, self.weight, out=memory.below)
        if self.prenorm:
            d_inner = torch.ops.aten.native_layer_norm_backward(
                d_inner, below, inner.shape[-1:], place.mean, place.rstd, None, None, [True, False, False]
            )[0]
        if not self.all_plain:
            d_inner[self.plain :].add_(above[self.plain :])
        memory.above, memory.below = d_inner, above
