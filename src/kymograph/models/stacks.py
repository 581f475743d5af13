"""Deep stacks of equal layers, plain or residual, R replicas at once.

    plain               h <- relu(W h + b)
    residual            h <- h + s * relu(W h + b)          s fixed per replica: 1, or 1/sqrt(layers)
    residual, learned   h <- h + a_l * relu(W h + b)        a_l a learned scalar per layer, starting at 0
    residual, pre-norm  h <- h + s * relu(W LN(h) + b)      LN without learned scale or shift
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kymograph import streams
from kymograph.models.flat import FlatParameters


@dataclass(frozen=True)
class Wiring:
    """How the layers are joined; networks of one wiring, depth and width can be trained in one stack."""

    skip: bool = False
    prenorm: bool = False
    learned_scale: bool = False


def initial_layers(seed: int, layers: int, width: int, learned_scale: bool) -> dict[str, Tensor]:
    """Returns Kaiming-normal (fan-in, ReLU) weights, zero biases and, if learned, zero branch scales."""
    draw = streams.generator(seed, "init")
    std = math.sqrt(2.0 / width)
    tensors: dict[str, Tensor] = {}
    for layer in range(layers):
        tensors[f"{layer}.weight"] = torch.empty(width, width).normal_(0.0, std, generator=draw)
        tensors[f"{layer}.bias"] = torch.zeros(width)
        if learned_scale:
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

    def __init__(self, affine: Affine, wiring: Wiring, scale: Tensor | None) -> None:
        super().__init__()
        self.affine, self.wiring, self.scale = affine, wiring, scale

    def forward(self, h: Tensor) -> Tensor:
        """Maps the stream (R, B, width) to its next point."""
        inner = nn.functional.layer_norm(h, h.shape[-1:]) if self.wiring.prenorm else h
        branch = nn.functional.relu(self.affine(inner))
        if not self.wiring.skip:
            return branch
        if self.scale is None:
            return h + branch
        return torch.addcmul(h, branch, self.scale[:, None, None])


class LayerStack(nn.Module):
    """R networks of ``layers`` equal layers; ``branch_scale`` holds each replica's fixed s, shape (R,)."""

    def __init__(
        self,
        replicas: int,
        layers: int,
        width: int,
        wiring: Wiring,
        branch_scale: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(layers):
            shapes |= {f"{layer}.weight": (width, width), f"{layer}.bias": (width,)}
            if wiring.learned_scale:
                shapes[f"{layer}.scale"] = ()
        self.flat = FlatParameters(shapes, replicas, device)
        views = self.flat.views
        fixed = None if branch_scale is None else branch_scale.to(device)
        self.blocks = nn.ModuleList(
            Layer(Affine(views[f"{layer}.weight"], views[f"{layer}.bias"]), wiring, views.get(f"{layer}.scale", fixed))
            for layer in range(layers)
        )

    def forward(self, h: Tensor) -> Tensor:
        """Maps inputs (R, B, width) to outputs of the same shape."""
        for block in self.blocks:
            h = block(h)
        return h
