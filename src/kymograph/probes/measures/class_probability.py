"""Class probability: the probability that a classifier gives to the right class."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float, Shaped

PART = {"about": "mean probability given to the right class at each class's samples", "unit": "probability"}


def class_probability(
    logits: Float[Tensor, "*batch token class"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the mean probability of the right class over each class's samples, shape (..., class).

    Args:
        logits: logits for each token, (..., token, class).
        counts: samples per (class, token), broadcast against (..., class, token).

    It is the expected recall of a classifier that samples its predictions: unlike the recall of the most probable
    class, it changes with every step. A class without samples is NaN, not 0.

    >>> import torch
    >>> class_probability(torch.zeros(2, 2), torch.tensor([[3.0, 1.0], [0.0, 0.0]])).tolist()
    [0.5, nan]
    """
    counts = as_float64(counts)
    right = as_float64(logits).softmax(-1).transpose(-1, -2)  # (..., class, token)
    return (counts * right).sum(-1) / counts.sum(-1)
