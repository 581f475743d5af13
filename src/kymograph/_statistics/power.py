"""Power of both tests, and the seeds needed for it; both tests on many samples at once, for simulations.

Flipping the signs of a subset of seeds leaves the sum at least as large if and only if the subset's sum is not
positive. So the one-sided sign-flip p-value that the mean exceeds ``against`` is the share of subsets whose mean does
not exceed it (Hartigan, 1969), the empty subset included. Up to 12 seeds, all subsets are in one table, from which the
p-value against any number is read. Up to 20 seeds, the limit of the exact test, every subset is the union of a subset
of the first half of the seeds and one of the second. Above that, subsets are drawn.

Formulas give the power of the t test. That of both tests together is lower, especially with few seeds: up to 12 seeds
it is simulated on normal differences, and above that the sign-flip test costs at most one more seed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from kymograph._shapes import Float, Shaped
from kymograph._statistics import p_values
from kymograph._statistics.intervals import t_quantile
from kymograph._statistics.p_values import LEAST_SEEDS, drawn_p

TABLE_UP_TO = 12
"""The largest number of seeds whose subsets are all in one table; up to it, simulations cost next to nothing."""
SUBSETS = 8_191
"""How many subsets are drawn for more than 20 seeds."""
MOST_SEEDS = 1000
"""If more seeds than this are needed, the answer is None."""
WORLDS = 2000
_STRATA = 2000


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
        larger: np.ndarray = np.maximum(self.t_p(against, alternative), self.sign_flip_p(against, alternative))
        return larger

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
        if TABLE_UP_TO < self.n <= p_values.EXACT_UP_TO:
            return self._counted_p(against, alternative)
        means, slack = self._subset_means
        reached = means <= against + slack if alternative == "greater" else means >= against - slack
        # The empty subset is not in the table: `drawn_p` always counts it.
        return drawn_p(np.count_nonzero(reached, axis=1), means.shape[1])

    @functools.cached_property
    def _subset_means(self) -> tuple[np.ndarray, np.ndarray]:
        """The means of every sample's subsets, (samples, subsets), and the tolerance for ties, (samples, 1)."""
        if self.n > TABLE_UP_TO:
            subsets = _drawn_subsets(self.n)
            sums, sizes = self._values @ subsets.T, subsets.sum(axis=1)
        else:
            sums, sizes = _subset_sums(self._values)[:, 1:], _subset_sums(np.ones((1, self.n)))[:, 1:]
        return sums / sizes, p_values.TIE * np.abs(self._values).max(axis=1, keepdims=True)

    def _counted_p(self, against: float, alternative: Literal["greater", "less"]) -> np.ndarray:
        """Returns exact one-sided p-values, counting the subsets of every sample in 2^(n/2) memory."""
        if np.isinf(against):
            ruled_out = (against < 0) == (alternative == "greater")
            return np.full(len(self._values), 1 / 2**self.n if ruled_out else 1.0)
        toward = np.sort(self._values - against if alternative == "greater" else against - self._values, axis=1)
        slack = p_values.TIE * np.abs(toward).sum(axis=1)
        # A subset with a number that outweighs all negative ones together has a positive sum.
        sizes = (toward <= (slack - np.minimum(toward, 0.0).sum(axis=1))[:, None]).sum(axis=1)
        shares = np.empty(len(toward))
        for size in np.unique(sizes):
            rows = sizes == size
            shares[rows] = _count_subsets(toward[rows, :size], slack[rows]) / 2**self.n
        return shares


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


def seeds_to_show_effect(effect: float, alpha: float, power: float = 0.8) -> int | None:
    """Returns the fewest seeds with which both tests, two-sided at ``alpha``, find a mean of ``effect`` sds.

    >>> seeds_to_show_effect(1.0, 0.05)
    11
    """
    # Beyond 10, six seeds have a power of 1 to rounding, and larger effects only strain the numerical series.
    size = min(abs(effect), 10.0)
    return _confirmed(
        fewest_seeds(lambda seeds: t_power(size, seeds, alpha), power),
        lambda seeds: float((normal_samples(seeds).p(-size, "greater") <= alpha / 2).mean()),
        power,
    )


def seeds_to_show_equivalence(effect: float, margin: float, alpha: float, power: float = 0.8) -> int | None:
    """Returns the fewest seeds with which both tests, one-sided at ``alpha``, put a mean within ``±margin``.

    ``effect`` and ``margin`` are in standard deviations of the differences. None if the effect is not within the
    margin, or if it takes more than 1,000.

    >>> seeds_to_show_equivalence(0.0, 1.0, 0.05)
    11
    """
    size, bound = abs(effect), min(margin, abs(effect) + 10.0)
    if size >= margin:
        return None

    def simulated(seeds: int) -> float:
        samples = normal_samples(seeds)
        above, below = samples.p(-bound - size, "greater"), samples.p(bound - size, "less")
        return float((np.maximum(above, below) <= alpha).mean())

    return _confirmed(fewest_seeds(lambda seeds: tost_power(size, bound, seeds, alpha), power), simulated, power)


def t_power(effect: float, n: int, alpha: float = 0.05) -> float:
    """Returns the power of a two-sided t test on n normal differences whose mean is ``effect`` standard deviations.

    >>> round(t_power(1.0, 10), 3)
    0.803
    """
    from scipy.stats import nct

    critical, shift = float(t_quantile(n - 1, 1 - alpha)), abs(effect) * math.sqrt(n)
    # Under a large shift scipy's far tail is NaN where it is below 1e-20.
    return float(nct.sf(critical, n - 1, shift) + np.nan_to_num(nct.cdf(-critical, n - 1, shift)))


def tost_power(effect: float, margin: float, n: int, alpha: float = 0.05) -> float:
    """Returns the power of two one-sided t tests at ``alpha`` to put the mean of n normal differences within a margin.

    ``effect`` and ``margin`` are in standard deviations. The power is the probability that the mean falls between the
    two bounds given the sample's standard deviation, averaged over equally likely strata of the latter.

    >>> round(tost_power(0.0, 1.0, 10), 2)
    0.8
    """
    from scipy.special import gammaincinv, ndtr

    degrees = n - 1
    strata = (np.arange(_STRATA) + 0.5) / _STRATA
    spread = float(t_quantile(degrees, 1 - 2 * alpha)) * np.sqrt(2 * gammaincinv(degrees / 2, strata) / degrees)
    upper, lower = math.sqrt(n) * (margin - effect) - spread, -math.sqrt(n) * (margin + effect) + spread
    return float(np.clip(ndtr(upper) - ndtr(lower), 0.0, None).mean())


def fewest_seeds(power_at: Callable[[int], float], power: float, most: int = MOST_SEEDS) -> int | None:
    """Returns the fewest seeds, at least six, at which the rising ``power_at`` reaches ``power``; None above ``most``.

    >>> fewest_seeds(lambda seeds: seeds / 100, 0.8)
    80
    """
    low, high = LEAST_SEEDS - 1, LEAST_SEEDS
    while high < most and power_at(high) < power:
        low, high = high, min(2 * high, most)
    if high > most or power_at(high) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if power_at(middle) < power:
            low = middle
        else:
            high = middle
    return high


@functools.lru_cache(maxsize=1)
def normal_samples(n: int, worlds: int = WORLDS) -> ManySamples:
    """Returns the samples of n standard normal differences that every simulation of power shares.

    Larger samples extend smaller ones, so that power rises smoothly with n.
    """
    return ManySamples(np.random.default_rng([0, worlds]).standard_normal((n, worlds)).T)


def _confirmed(start: int | None, simulated: Callable[[int], float], power: float) -> int | None:
    """Returns the fewest seeds from the t test's ``start`` on with which both tests reach the power."""
    if start is None:
        return None
    for seeds in range(start, TABLE_UP_TO + 1):
        if simulated(seeds) >= power:
            return seeds
    return max(start, TABLE_UP_TO) + 1
