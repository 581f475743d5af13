"""Norm of the gradient at a layer's output."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.reductions import norm

PART = {
    "about": "L2 norm of the gradient with respect to a layer's output",
    "unit": "loss per unit of the output",
    "level": "light",
    "order": 11,
    "at": "output-gradient",
    "together": "norm",
}


def output_gradient_norm(gradient: Tensor) -> Tensor | float:
    """Returns the L2 norm over all entries of ``gradient``.

    It is the gradient of the tensor that ``backward`` was called on: for a mean over the batch it shrinks as the batch
    grows, and under a ``GradScaler`` it is multiplied by the scale.

    >>> float(output_gradient_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return norm(gradient)
