"""Recall: the fraction of each class's samples that are classified correctly."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float, Int, Shaped

PART = {"about": "fraction of each class's samples that are classified correctly", "unit": "fraction correct"}


def recall(
    predictions: Int[Tensor, "*batch token"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the recall of each class, shape (..., class), from the class predicted for each token.

    Args:
        predictions: the class predicted for each token, (..., token).
        counts: samples per (class, token), broadcast against (..., class, token).

    A class without samples is NaN, not 0.

    >>> recall(torch.tensor([0, 0]), torch.tensor([[3.0, 1.0], [0.0, 2.0]])).tolist()
    [1.0, 0.0]
    """
    counts = as_float64(counts)
    classes = torch.arange(counts.shape[-2], device=counts.device)
    correct = predictions.to(counts.device)[..., None, :] == classes[:, None]  # (..., class, token)
    return (counts * correct).sum(-1) / counts.sum(-1)
