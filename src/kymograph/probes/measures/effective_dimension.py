"""Effective dimension of a cloud of points: exp of the entropy of its covariance spectrum."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float

PART = {"about": "exp(entropy) of the normalised covariance spectrum of a cloud of points", "unit": "dimensions"}


def effective_dimension(points: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns exp(entropy) of the normalised covariance spectrum of the rows of ``points`` (..., n, d).

    Singular values are divided by the largest before they are squared, so the result depends on the shape of the
    cloud and not on its size: a cloud shrunk to 1e-6 keeps its dimension. At most min(n - 1, d); NaN if all
    points coincide, or one is not finite.

    >>> round(float(effective_dimension(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))), 6)
    2.0
    """
    points = as_float64(points)
    centred = points - points.mean(dim=-2, keepdim=True)
    usable = centred.isfinite().all(-1).all(-1)[..., None, None]
    # (..., min(n, d)), largest first; svdvals raises on NaN
    singular = torch.linalg.svdvals(torch.where(usable, centred, 0.0))
    spectrum = (singular / singular[..., :1]).square()  # 0/0 = NaN where all points coincide
    return torch.special.entr(spectrum / spectrum.sum(-1, keepdim=True)).sum(-1).exp()


def largest_effective_dimension(n: int, d: int) -> int:
    """Returns the largest possible effective dimension of n centred points in d dimensions."""
    return min(n - 1, d)
