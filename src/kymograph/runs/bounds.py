"""Ranges that a quantity cannot leave, declared by its study or inferred from its name and values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_USUAL: Mapping[frozenset[str], tuple[float, float]] = {
    frozenset({"accuracy", "acc", "probability", "prob", "fraction", "share", "p"}): (0.0, 1.0),
    frozenset({"cosine", "cos", "correlation"}): (-1.0, 1.0),
}
"""Usual ranges, by words in a quantity's name."""
NOT_NEGATIVE = (0.0, math.inf)
"""The range of norms, standard deviations and squared errors."""


def bounds_of(
    name: str, values: np.ndarray | Iterable[Any], declared: Mapping[str, tuple[float, float]] | None = None
) -> tuple[float, float] | None:
    """Returns the range that the quantity ``name`` cannot leave; None if there is none, or if ``values`` leave it.

    >>> bounds_of("test_accuracy", [0.5, 0.9]), bounds_of("test_accuracy", [50.0, 90.0]), bounds_of("loss", [0.5])
    ((0.0, 1.0), None, None)
    """
    stated = (declared or {}).get(name)
    limits = stated or _usual(name)
    if limits is None:
        return None
    numbers = (
        np.array([value for value in values if isinstance(value, int | float)], dtype=np.float64)
        if not isinstance(values, np.ndarray)
        else values
    )
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return limits if stated else None
    return limits if limits[0] <= finite.min() and finite.max() <= limits[1] else None


def _usual(name: str) -> tuple[float, float] | None:
    words = set(re.split(r"[^a-z]+", name.lower()))
    return next((limits for known, limits in _USUAL.items() if words & known), None)
