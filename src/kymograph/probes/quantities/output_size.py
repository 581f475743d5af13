"""Number of entries of a layer's output."""

from __future__ import annotations

from torch import Tensor

PART = {"about": "entries of a layer's output", "unit": "entries", "order": 90, "at": "output", "together": "sum"}


def output_size(output: Tensor) -> int:
    """Returns the number of entries of ``output``.

    >>> output_size(torch.zeros(2, 3))
    6
    """
    return output.numel()
