"""Norm of a layer's output."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.reductions import norm

PART = {
    "about": "L2 norm of a layer's output, over the whole batch",
    "unit": "units of the output",
    "level": "light",
    "order": 10,
    "at": "output",
    "together": "norm",
}


def output_norm(output: Tensor) -> Tensor | float:
    """Returns the L2 norm over all entries of ``output``.

    >>> float(output_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return norm(output)
