"""Norm of the gradient of a layer's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kymograph.probes.reductions import norms_of

PART = {
    "about": "L2 norm of the gradient of a layer's parameters, as the optimizer sees it",
    "unit": "loss per unit of the weights",
    "level": "standard",
    "order": 23,
    "at": "weight-gradient",
    "together": "norm",
}


def weight_gradient_norm(gradients: Sequence[Tensor], previous: Sequence[Tensor | None]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``gradients``.

    They are read as ``optimizer.step`` begins: accumulated, unscaled and clipped, if the loop does any of these. A
    probe without an optimizer reads them when the step ends.

    >>> float(weight_gradient_norm([torch.tensor([3.0, 4.0])], [None])[0])
    5.0
    """
    return norms_of(gradients)
