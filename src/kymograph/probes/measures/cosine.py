"""Cosine between vectors."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import directions
from kymograph.shapes import Float

PART = {"about": "cosine between two vectors", "unit": "1"}


def cosine(a: Float[Tensor, "*batch d"], b: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """Returns the cosine between vectors ``a`` and ``b`` (..., d), in float64; NaN where it is not defined.

    Parallel vectors of norm 1e-30 have cosine 1. A vector that is zero or not finite has no direction and gives
    NaN, for the caller to count.

    >>> round(float(cosine(torch.tensor([3e-30, 4e-30]), torch.tensor([3.0, 4.0]))), 6)
    1.0
    """
    return (directions(a) * directions(b)).sum(-1).clamp(-1.0, 1.0)
