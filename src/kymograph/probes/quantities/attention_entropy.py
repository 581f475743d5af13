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

    0: every query looks at one key; log(keys): it looks at all alike. Queries that may look at nothing are left out.

    >>> round(float(attention_entropy(torch.full((1, 1, 2, 4), 0.25))), 6)
    1.386294
    """
    return torch.special.entr(weights.double()).sum(-1).nanmean()
