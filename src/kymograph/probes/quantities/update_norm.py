"""Norm of the update of a layer's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kymograph.probes.reductions import norms_of

PART = {
    "about": "L2 norm of the measured change of a layer's parameters in the step",
    "unit": "units of the weights",
    "level": "light",
    "order": 13,
    "at": "update",
    "together": "norm",
    "view": "flat",
}


def update_norm(updates: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``updates``: what the step subtracted from the weights.

    It is the measured change and includes momentum, weight decay and clipping. The update of a frozen layer is 0.

    >>> float(update_norm([torch.tensor([3.0, 4.0])])[0])
    5.0
    """
    return norms_of(updates)
