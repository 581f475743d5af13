"""P-values from draws of a null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from kymograph.shapes import Float, Int, Shaped

Draws: TypeAlias = Shaped[np.ndarray, " draws"] | Sequence[float]
"""The values of a null, one per draw."""


def monte_carlo_p(observed: float, null: Draws, alternative: Literal["greater", "less"] = "greater") -> float:
    """Returns the p-value of ``observed`` against the draws of a null; a tie counts against it, and NaN stays NaN.

    >>> monte_carlo_p(2.0, [0.0, 1.0, 3.0])
    0.5
    """
    if math.isnan(observed):
        return math.nan
    values = np.asarray(null, dtype=np.float64)
    reached = values >= observed if alternative == "greater" else values <= observed
    return float(drawn_p(int(reached.sum()), len(values)))


def drawn_p(reached: int | Int[np.ndarray, "*shape"], draws: int) -> Float[np.ndarray, "*shape"]:
    """Returns (1 + b)/(1 + m) for b of m draws that reach the observed value: never 0 (Phipson and Smyth, 2010).

    >>> float(drawn_p(0, 99))
    0.01
    """
    return np.asarray(np.add(1, reached) / (1 + draws))
