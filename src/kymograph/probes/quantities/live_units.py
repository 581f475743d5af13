"""Number of live units after a ReLU."""

from __future__ import annotations

import torch
from torch import Tensor

PART = {
    "about": "units after a ReLU that are not 0 for every sample of the batch",
    "unit": "units",
    "order": 92,
    "at": "output",
    "together": "sum",
    "layers": ["ReLU", "ReLU6"],
    "view": "units",
}


def live_units(output: Tensor) -> Tensor:
    """Returns how many columns of a rectifier's ``output`` (samples, units) are not all exactly 0.

    The output is never negative, so only a column of zeros sums to 0, and a sum is much faster than a comparison.

    >>> int(live_units(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])))
    2
    """
    return torch.count_nonzero(output.sum(0))
