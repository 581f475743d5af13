"""Median norm: the length of a typical sample's vector."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import norms
from kymograph.shapes import Float

PART = {"about": "median over samples of the L2 norm", "unit": "units of the vectors"}


def median_norm(vectors: Float[Tensor, "*batch samples d"]) -> Float[Tensor, "*batch"]:
    """Returns the median over samples of the L2 norms of ``vectors`` (..., samples, d).

    For an even number of samples it is the lower of the middle two, as in torch; NaN if one norm is NaN.

    >>> float(median_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 9.0]])))
    5.0
    """
    return norms(vectors).median(dim=-1).values
