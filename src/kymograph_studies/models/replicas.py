"""Networks of many replicas: the next-token model, and deep stacks of equal layers.

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

import kymograph as ky
from kymograph_studies.models.flat import FlatParameters, ReplicaNetwork
from kymograph_studies.script_randomness import script_generator


@dataclass(frozen=True)
class TokenBatch:
    """The inputs of one step for R replicas, in the two forms that the forward and backward passes need."""

    index: Tensor  # (R, B, dim) int64: each token number repeated along dim, for `gather`
    onehot: Tensor  # (R, vocab, B): column b marks the token of sample b


@dataclass(frozen=True)
class TokenTargets:
    """The targets of one step for R replicas."""

    index: Tensor  # (R * B,) int64
    onehot: Tensor  # (R, B, vocab)


def initial_weights(seed: int, vocab: int, dim: int) -> dict[str, Tensor]:
    """Returns PyTorch's default initial weights of ``Embedding(vocab, dim)`` and ``Linear(dim, vocab)`` under ``seed``.

    Drawn in that order from one generator seeded with ``seed`` itself, as the script draws them.
    """
    draw = script_generator(seed)
    bound = 1.0 / math.sqrt(dim)
    embedding = torch.empty(vocab, dim).normal_(generator=draw)
    # Linear's default, kaiming_uniform with a = sqrt(5), is uniform on +-1/sqrt(fan_in) for weight and bias.
    weight = torch.empty(vocab, dim).uniform_(-bound, bound, generator=draw)
    bias = torch.empty(vocab).uniform_(-bound, bound, generator=draw)
    return {"embedding": embedding, "weight": weight, "bias": bias}


class NextToken(ReplicaNetwork):
    """R independent models ``logits = W E[token] + b``."""

    def __init__(self, replicas: int, vocab: int, dim: int, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.vocab, self.dim = vocab, dim
        shapes = {"embedding": (vocab, dim), "weight": (vocab, dim), "bias": (vocab,)}
        self.flat = FlatParameters(shapes, replicas, device)
        self.embedding, self.weight, self.bias = self.flat.views.values()

    def forward(self, batch: TokenBatch) -> Tensor:
        """Returns the logits, shape (R, B, vocab)."""
        embedded = torch.gather(self.embedding, 1, batch.index)  # (R, B, dim)
        return torch.baddbmm(self.bias[:, None], embedded, self.weight.transpose(1, 2))

    def token_logits(self, values: Tensor) -> Tensor:
        """Returns the logits of every token under weights ``values`` (..., P), shape (..., token, class)."""
        cut = self.vocab * self.dim
        weight: Tensor = values[..., cut : 2 * cut].unflatten(-1, (self.vocab, self.dim))
        return self.embeddings(values) @ weight.transpose(-1, -2) + values[..., None, 2 * cut :]

    def embeddings(self, values: Tensor) -> Tensor:
        """Returns the embedding tables inside weights ``values`` (..., P), shape (..., vocab, dim)."""
        embedding: Tensor = values[..., : self.vocab * self.dim].unflatten(-1, (self.vocab, self.dim))
        return embedding


NORM_EPS = 1e-5  # inside LayerNorm, as in torch


@dataclass(frozen=True)
class Wiring:
    """How the layers of a whole stack of replicas are joined."""

    scales: tuple[float | None, ...]
    """The fixed factor on each replica's residual branches, or None for a plain network; plain replicas come first."""
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
        """The number of plain replicas."""
        return sum(scale is None for scale in self.scales)

    @property
    def fixed_scale(self) -> Tensor | None:
        """The residual replicas' factors, shape (residual, 1, 1), or None if all are 1."""
        scales = [scale for scale in self.scales if scale is not None]
        return None if all(scale == 1.0 for scale in scales) else torch.tensor(scales)[:, None, None]


def initial_layers(seed: int, layers: int, width: int, learned: bool = False) -> dict[str, Tensor]:
    """Returns Kaiming-normal (fan-in, ReLU) weights, zero biases and, if learned, zero branch factors."""
    draw = ky.generator(seed, "init")
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
        # The residual replicas' factors: a constant (residual, 1, 1), a parameter (R,), or None for 1.
        if isinstance(scale, nn.Parameter):
            self.scale: Tensor | None = scale
        else:
            self.register_buffer("scale", scale, persistent=False)  # moved with the network, but not part of its state

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


class LayerStack(ReplicaNetwork):
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

    def forward(self, h: Tensor) -> Tensor:
        """Maps inputs (R, B, width) to outputs of the same shape."""
        for block in self.blocks:
            h = block(h)
        return h
