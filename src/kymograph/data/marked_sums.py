"""Sequences of tokens, two of them marked; the class is the sum of the marked values modulo the number of values.

A token is a value without a mark, or with mark A, or with mark B. One A and one B are at random positions among values
without marks. Which values are marked is a linear function of the tokens in a sequence; their sum modulo the number of
values is not, so a read-out of fixed features cannot learn it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph import streams

MARKS = 3  # none, A, B


@dataclass(frozen=True)
class MarkedSums:
    """Sequences and their classes."""

    tokens: Tensor  # (samples, length) int64, in [0, vocab)
    labels: Tensor  # (samples,) int64, in [0, values)
    values: int

    @property
    def vocab(self) -> int:
        """How many tokens there are: every value without a mark, with A and with B."""
        return MARKS * self.values


def marked_sums(seed: int, samples: int, values: int, length: int) -> MarkedSums:
    """Returns ``samples`` independent sequences of ``length`` tokens, from the seed's own stream.

    >>> task = marked_sums(42, 100, values=5, length=6)
    >>> task.tokens.shape, int(task.labels.max()) < 5
    (torch.Size([100, 6]), True)
    """
    draw = streams.generator(seed, "marked sums")
    tokens = torch.randint(0, values, (samples, length), generator=draw)
    positions = torch.rand(samples, length, generator=draw).argsort(1)
    marked = torch.randint(0, values, (samples, 2), generator=draw)
    rows = torch.arange(samples)
    for mark in (0, 1):
        tokens[rows, positions[:, mark]] = marked[:, mark] + (mark + 1) * values
    return MarkedSums(tokens, marked.sum(1) % values, values)
