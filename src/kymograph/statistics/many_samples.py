"""Both tests on many samples at once, and Holm's correction in many families, for simulations.

Flipping the signs of a subset of seeds leaves the sum at least as large if and only if the subset's sum is not
positive. So the one-sided sign-flip p-value that the mean exceeds ``against`` is the share of subsets whose mean does
not exceed it (Hartigan, 1969), the empty subset included. Up to 12 seeds, all subsets are in one table, from which the
p-value against any number is read. Up to 20 seeds, the limit of the exact test, every subset is the union of a subset
of the first half of the seeds and one of the second. Above that, subsets are drawn.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from kymograph.shapes import Float, Shaped
from kymograph.statistics import sign_flips
from kymograph.statistics.monte_carlo import drawn_p

EXACT_UP_TO = 12
"""The largest number of seeds whose subsets are all in one table; up to it, simulations cost next to nothing."""
SUBSETS = 8_191
"""How many subsets are drawn for more than 20 seeds."""


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
            raise ValueError("many samples must be a table with one row per sample and two or more seeds")
        self.n = table.shape[1]
        self._mean, self._sd = table.mean(axis=1), table.std(axis=1, ddof=1)
        self._sd[(table == table[:, :1]).all(axis=1)] = 0.0  # rounding of the mean would leave a tiny deviation
        self._values = table

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
        """Returns one-sided sign-flip p-values, (samples,): exact up to 20 seeds, from drawn subsets above."""
        if EXACT_UP_TO < self.n <= sign_flips.EXACT_UP_TO:
            return self._counted_p(against, alternative)
        means, slack = self._subset_means
        reached = means <= against + slack if alternative == "greater" else means >= against - slack
        # The empty subset is not in the table: `drawn_p` always counts it.
        return drawn_p(np.count_nonzero(reached, axis=1), means.shape[1])

    @functools.cached_property
    def _subset_means(self) -> tuple[np.ndarray, np.ndarray]:
        """The means of every sample's subsets, (samples, subsets), and the tolerance for ties, (samples, 1)."""
        if self.n > EXACT_UP_TO:
            subsets = _drawn_subsets(self.n)
            sums, sizes = self._values @ subsets.T, subsets.sum(axis=1)
        else:
            sums, sizes = _subset_sums(self._values)[:, 1:], _subset_sums(np.ones((1, self.n)))[:, 1:]
        return sums / sizes, sign_flips.TIE * np.abs(self._values).max(axis=1, keepdims=True)

    def _counted_p(self, against: float, alternative: Literal["greater", "less"]) -> np.ndarray:
        """Returns exact one-sided p-values, counting the subsets of every sample in 2^(n/2) memory."""
        if np.isinf(against):
            ruled_out = (against < 0) == (alternative == "greater")
            return np.full(len(self._values), 1 / 2**self.n if ruled_out else 1.0)
        toward = np.sort(self._values - against if alternative == "greater" else against - self._values, axis=1)
        slack = sign_flips.TIE * np.abs(toward).sum(axis=1)
        # A subset with a number that outweighs all negative ones together has a positive sum.
        sizes = (toward <= (slack - np.minimum(toward, 0.0).sum(axis=1))[:, None]).sum(axis=1)
        counts = np.empty(len(toward))
        for size in np.unique(sizes):
            rows = sizes == size
            counts[rows] = _count_subsets(toward[rows, :size], slack[rows])
        return counts / 2**self.n


def _count_subsets(values: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Counts, in every sample (samples, k), the subsets whose sum is at most the sample's ``most`` (samples,).

    Every subset is the union of a subset of the first half of the numbers and one of the second; with the second half's
    sums sorted, each sum of the first half needs one search.
    """
    half = values.shape[1] // 2
    limits = np.sort(most[:, None] - _subset_sums(values[:, :half]), axis=1)  # searches are faster in order
    sums = np.sort(_subset_sums(values[:, half:]), axis=1)
    return np.array([np.searchsorted(*pair, "right").sum() for pair in zip(sums, limits, strict=True)])


def _subset_sums(values: np.ndarray) -> np.ndarray:
    """Returns the sums (samples, 2^k) of all subsets of every sample (samples, k), the empty subset first."""
    sums = np.zeros((len(values), 1))
    for number in values.T:
        sums = np.concatenate([sums, sums + number[:, None]], axis=1)
    return sums


@functools.lru_cache(maxsize=8)
def _drawn_subsets(n: int) -> np.ndarray:
    """Returns random subsets of n seeds as rows of 0 and 1, none of them empty."""
    drawn = np.random.default_rng(n).integers(0, 2, size=(SUBSETS, n)).astype(np.float64)
    return drawn[drawn.any(axis=1)]


def holm_many(p_values: Shaped[np.ndarray, "families claims"]) -> Float[np.ndarray, "families claims"]:
    """Returns Holm's (1979) adjusted p-values of many families, one family per row; none may be missing.

    >>> holm_many(np.array([[0.04, 0.01, 0.03], [0.5, 0.6, 0.01]])).tolist()
    [[0.06, 0.03, 0.06], [1.0, 1.0, 0.03]]
    """
    count = p_values.shape[1]
    order = np.argsort(p_values, axis=1, kind="stable")
    rising = np.minimum(1.0, np.take_along_axis(p_values, order, axis=1) * np.arange(count, 0, -1))
    adjusted = np.empty_like(rising)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(rising, axis=1), axis=1)
    return adjusted
