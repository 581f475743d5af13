"""Cosine of successive gradients of a layer's weights."""

from __future__ import annotations

import numpy as np

PART = {
    "about": "cosine of a layer's weight gradients at this and the previous measured step",
    "unit": "1",
    "log": False,
    "level": "standard",
    "order": 25,
    "from": ["weight_gradient_dot", "weight_gradient_norm"],
}


def gradient_cosine(dot: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Returns the cosine of each gradient and the one measured before it, (steps, layers); NaN at the first step.

    With ``every=1`` these are the gradients of successive steps, below 0 where training oscillates; with ``every=10``
    they are ten steps apart. A gradient of 0 has no direction: NaN.

    >>> gradient_cosine(np.array([[np.nan], [-3.0]]), np.array([[2.0], [3.0]])).tolist()
    [[nan], [-0.5]]
    """
    before = np.full_like(norm, np.nan)
    before[1:] = norm[:-1]
    lengths = before * norm
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(lengths > 0, np.clip(dot / lengths, -1.0, 1.0), np.nan)
