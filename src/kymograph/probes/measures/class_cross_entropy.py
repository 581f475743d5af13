"""Class cross-entropy: the mean loss on each class's samples."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float, Shaped

PART = {"about": "mean cross-entropy at each class's samples", "unit": "nats"}


def class_cross_entropy(
    logits: Float[Tensor, "*batch token class"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the mean of -log(probability of the right class) over each class's samples, shape (..., class).

    Args:
        logits: logits for each token, (..., token, class).
        counts: samples per (class, token), broadcast against (..., class, token).

    A class without samples is NaN, not 0.

    >>> import torch
    >>> class_cross_entropy(torch.zeros(2, 2), torch.tensor([[3.0, 1.0], [0.0, 0.0]])).exp().tolist()
    [2.0, nan]
    """
    counts = as_float64(counts)
    losses = -as_float64(logits).log_softmax(-1).transpose(-1, -2)  # (..., class, token)
    return (counts * losses).sum(-1) / counts.sum(-1)
