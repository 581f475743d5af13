"""Number of units after a ReLU."""

from __future__ import annotations

from torch import Tensor

PART = {
    "about": "units after a ReLU",
    "unit": "units",
    "order": 93,
    "at": "output",
    "together": "sum",
    "layers": ["ReLU", "ReLU6"],
    "view": "units",
}


def unit_count(output: Tensor) -> int:
    """Returns the number of columns of ``output`` (samples, units).

    >>> unit_count(torch.zeros(2, 3))
    3
    """
    return output.shape[-1]
