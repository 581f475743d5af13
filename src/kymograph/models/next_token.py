"""The next-token model: an embedding and a linear read-out, R replicas at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph import streams
from kymograph.models.flat import FlatParameters, ReplicaNetwork


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
    draw = streams.script_generator(seed)
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
        embedding = values[..., :cut].unflatten(-1, (self.vocab, self.dim))
        weight = values[..., cut : 2 * cut].unflatten(-1, (self.vocab, self.dim))
        return embedding @ weight.transpose(-1, -2) + values[..., None, 2 * cut :]

    def embeddings(self, values: Tensor) -> Tensor:
        """Returns the embedding tables inside weights ``values`` (..., P), shape (..., vocab, dim)."""
        return values[..., : self.vocab * self.dim].unflatten(-1, (self.vocab, self.dim))
