"""Norm of a layer's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kymograph.probes.reductions import norms_of

PART = {
    "about": "L2 norm of all parameters of a layer, before the step",
    "unit": "units of the weights",
    "level": "light",
    "order": 12,
    "at": "weight",
    "together": "norm",
    "view": "flat",
}


def weight_norm(weights: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``weights``.

    >>> float(weight_norm([torch.tensor([3.0, 4.0])])[0])
    5.0
    """
    return norms_of(weights)
