"""Roughness of a series: its jitter around its trend."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float

PART = {"about": "RMS of successive differences without the linear trend", "unit": "units of the series per step"}


def roughness(series: Float[Tensor, "*batch steps"]) -> Float[Tensor, "*batch"]:
    """Returns the RMS of successive differences of ``series`` (..., steps) after its linear trend is removed.

    The standard deviation of a growing series measures growth; this measures jitter.

    >>> float(roughness(torch.tensor([0.0, 3.0, 4.0])))
    1.0
    """
    steps = as_float64(series).diff(dim=-1)
    return (steps - steps.mean(-1, keepdim=True)).square().mean(-1).sqrt()
