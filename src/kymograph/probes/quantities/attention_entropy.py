"""Entropy of attention."""

from __future__ import annotations

import torch
from torch import Tensor

PART = {
    "about": "mean entropy of the attention of one query, over heads and queries",
    "unit": "nats",
    "level": "deep",
    "order": 31,
    "at": "attention",
    "together": "mean",
}


def attention_entropy(weights: Tensor) -> Tensor:
    """Returns the mean over batch, heads and queries of the entropy of ``weights`` (batch, heads, queries, keys).

    0: every query attends to one key; log(keys): it attends to all equally. Fully masked queries are left out.

    >>> round(float(attention_entropy(torch.full((1, 1, 2, 4), 0.25))), 6)
    1.386294
    """
    return torch.special.entr(weights.double()).sum(-1).nanmean()
