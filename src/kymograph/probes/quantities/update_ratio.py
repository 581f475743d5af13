"""Update-to-weight ratio of a layer."""

from __future__ import annotations

import numpy as np

PART = {
    "about": "norm of the measured update of a layer's weights over the norm of the weights before it",
    "unit": "1",
    "level": "standard",
    "order": 24,
    "from": ["update_norm", "weight_norm"],
}


def update_ratio(update: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Returns ``update`` over ``weight``; NaN where the weights are 0.

    >>> update_ratio(np.array([0.1, 0.1]), np.array([10.0, 0.0])).tolist()
    [0.01, nan]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weight > 0, update / weight, np.nan)
