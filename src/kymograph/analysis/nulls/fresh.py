"""Fresh feedback matrices from the same distribution, which had no part in training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph.analysis.credit import Pairs
from kymograph.analysis.nulls.matrices import cosines_of_drawn

PART = {"label": "fresh matrices", "about": "fresh matrices from the same distribution", "order": 1}


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws)."""
    return cosines_of_drawn("fresh", _matrices, pairs, matrices, serving, draws, seed)


def _matrices(matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` Gaussian matrices (draws, width, classes), in float32."""
    width, classes = matrix.shape
    return torch.randn(draws, width, classes, generator=draw) / math.sqrt(classes)
