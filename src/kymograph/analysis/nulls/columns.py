"""The training matrix with its columns, the classes, permuted: the same signals for other classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph.analysis.credit import Pairs
from kymograph.analysis.nulls.matrices import cosines_of_drawn

PART = {"label": "classes permuted", "about": "the training matrix with its columns (classes) permuted", "order": 3}


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws)."""
    return cosines_of_drawn("columns", _matrices, pairs, matrices, serving, draws, seed)


def _matrices(matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` copies of the matrix (draws, width, classes) with permuted columns, in float32."""
    order = torch.rand(draws, matrix.shape[1], generator=draw).argsort(1)
    return matrix.float().T[order].transpose(1, 2)
