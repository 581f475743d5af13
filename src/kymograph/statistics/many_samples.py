"""Both tests on many samples at once: what simulations of error rates and power are made of.

The one-sided sign-flip p-value against any number is read off one table. Turning over the signs of a subset of seeds
keeps the sum at least as large as it was exactly if the subset's sum is not positive; so the p-value that the mean
exceeds ``against`` is the share of subsets whose mean does not (Hartigan, 1969), the empty one counted among them.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from kymograph.shapes import Float, Shaped
from kymograph.statistics.monte_carlo import drawn_p

EXACT_UP_TO = 12
"""The largest number of seeds all of whose subsets are counted."""
SUBSETS = 8_191
"""How many subsets are drawn of more seeds."""
_TIE = 1e-12
"""Means closer than this, relative to the largest size, are ties."""


class ManySamples:
    """Samples of n seeds each, and the p-values of both tests on all of them.

    Args:
        values: (samples, n) one number per sample and seed.

    >>> samples = ManySamples(np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]]))
    >>> samples.sign_flip_p(0.0, "greater").tolist()
    [0.125, 0.5]
    """

    def __init__(self, values: Shaped[np.ndarray, "samples n"]) -> None:
        table = np.asarray(values, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] < 2:
            raise ValueError("many samples are a table with one row per sample and two or more seeds")
        self.n = table.shape[1]
        self._mean, self._sd = table.mean(axis=1), table.std(axis=1, ddof=1)
        subsets = _subsets(self.n)
        self._subset_means = (subsets @ table.T) / subsets.sum(axis=1, keepdims=True)
        self._slack = _TIE * np.abs(table).max(axis=1)

    def p(self, against: float, alternative: Literal["greater", "less"]) -> Float[np.ndarray, " samples"]:
        """Returns the larger of the two tests' one-sided p-values, (samples,)."""
        return np.maximum(self.t_p(against, alternative), self.sign_flip_p(against, alternative))

    def t_p(self, against: float, alternative: Literal["greater", "less"]) -> Float[np.ndarray, " samples"]:
        """Returns Student's one-sided p-values, (samples,)."""
        from scipy.special import stdtr

        sign = 1.0 if alternative == "greater" else -1.0
        toward = sign * (self._mean - against)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = stdtr(self.n - 1, -toward / self._sd * np.sqrt(self.n))
        return np.where(self._sd > 0, tail, np.where(toward > 0, 0.0, 1.0))

    def sign_flip_p(self, against: float, alternative: Literal["greater", "less"]) -> Float[np.ndarray, " samples"]:
        """Returns one-sided sign-flip p-values, (samples,): exact up to 12 seeds, from drawn subsets above."""
        if alternative == "greater":
            reached = self._subset_means <= against + self._slack
        else:
            reached = self._subset_means >= against - self._slack
        # The empty subset is not in the table: it is the one that is always counted.
        return drawn_p(np.count_nonzero(reached, axis=0), len(self._subset_means))


@functools.lru_cache(maxsize=8)
def _subsets(n: int) -> np.ndarray:
    """Returns subsets of n seeds as rows of 0 and 1, never empty: all 2^n - 1, or so many drawn ones."""
    if n <= EXACT_UP_TO:
        codes = np.arange(1, 2**n)
        return ((codes[:, None] >> np.arange(n)) & 1).astype(np.float64)
    drawn = np.random.default_rng(n).integers(0, 2, size=(SUBSETS, n)).astype(np.float64)
    return drawn[drawn.any(axis=1)]
