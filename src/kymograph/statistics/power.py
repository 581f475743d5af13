"""Power of both tests, and the seeds needed for it.

Formulas give the power of the t test. That of both tests together is lower, especially with few seeds: up to 12 seeds
it is simulated on normal differences, and above that the sign-flip test costs at most one more seed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from kymograph.statistics.intervals import t_quantile
from kymograph.statistics.many_samples import EXACT_UP_TO, ManySamples
from kymograph.statistics.sign_flips import LEAST_SEEDS

MOST_SEEDS = 1000
"""If more seeds than this are needed, the answer is None."""
WORLDS = 2000
_STRATA = 2000


def seeds_to_show_effect(effect: float, alpha: float, power: float = 0.8) -> int | None:
    """Returns the fewest seeds with which both tests, two-sided at ``alpha``, find a mean of ``effect`` sds.

    >>> seeds_to_show_effect(1.0, 0.05)
    11
    """
    size = _bounded(abs(effect))
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
    for seeds in range(start, EXACT_UP_TO + 1):
        if simulated(seeds) >= power:
            return seeds
    return max(start, EXACT_UP_TO) + 1


def _bounded(effect: float) -> float:
    """Returns an effect in standard deviations, at most 10.

    Beyond that, six seeds have a power of 1 to rounding, and larger effects only strain the numerical series.
    """
    return min(effect, 10.0)
