"""Total variance of a cloud of points: the trace of its covariance."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float

PART = {"about": "trace of the covariance of a cloud of points", "unit": "squared units of the points"}


def total_variance(points: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns the trace of the covariance (n - 1 in the denominator) of the rows of ``points`` (..., n, d).

    >>> float(total_variance(torch.tensor([[0.0, 0.0], [2.0, 4.0]])))
    10.0
    """
    return as_float64(points).var(dim=-2).sum(-1)
