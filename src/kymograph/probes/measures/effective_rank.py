"""Effective rank of a matrix: exp of the entropy of its singular values."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float

PART = {"about": "exp(entropy) of the normalised singular values of a matrix", "unit": "dimensions"}


def effective_rank(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns exp(entropy) of the normalised singular values of ``matrix`` (..., n, d); Roy and Vetterli, 2007.

    Unlike for the effective dimension, the matrix is not centred and the singular values are not squared. The scale of
    the matrix does not matter. At most min(n, d); NaN if all entries are 0 or one is not finite.

    >>> round(float(effective_rank(torch.diag(torch.tensor([2.0, 2.0, 0.0])))), 6)
    2.0
    """
    matrix = as_float64(matrix)
    usable = matrix.isfinite().all(-1).all(-1)
    singular = torch.linalg.svdvals(torch.where(usable[..., None, None], matrix, 0.0))  # svdvals raises on NaN
    share = singular / singular.sum(-1, keepdim=True)  # 0/0 = NaN where all are 0
    return torch.special.entr(share).sum(-1).exp()
