"""Root mean square of a layer's output."""

from __future__ import annotations

import numpy as np

PART = {
    "about": "root mean square of the entries of a layer's output",
    "unit": "units of the output",
    "level": "standard",
    "order": 20,
    "from": ["output_norm", "output_size"],
}


def output_rms(norm: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Returns ``norm`` divided by the root of ``size``: the size of a typical entry, independent of the batch size.

    >>> output_rms(np.array([6.0]), np.array([4.0]))
    array([3.])
    """
    return norm / np.sqrt(size)
