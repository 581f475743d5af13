"""Power of the t test, and the seeds that it takes."""

from __future__ import annotations

import math

import numpy as np

from kymograph.statistics.intervals import t_quantile
from kymograph.statistics.samples import Sample, moments, vector_of
from kymograph.statistics.sign_flips import LEAST_SEEDS


def seeds_needed(
    values: Sample, against: float = 0.0, alpha: float = 0.05, power: float = 0.8, most: int = 1000
) -> int | None:
    """Returns the fewest seeds, at least six, with which the two-sided t test at ``alpha`` has ``power``.

    The effect is taken to be the one seen, (mean - against)/sd, which is itself uncertain: this is a plan, not a
    promise. None if it takes more than ``most``, or if the values are fewer than two or all equal.

    >>> seeds_needed([0.0, 1.0, 2.0])
    10
    """
    mean, sd, n = moments(vector_of(values) - against)
    if n < 2 or sd == 0:
        return None
    # Beyond an effect of 10 six seeds have a power of 1, to rounding; larger ones only strain the series for it.
    effect = min(abs(mean) / sd, 10.0)
    low, high = LEAST_SEEDS - 1, LEAST_SEEDS
    while high < most and t_power(effect, high, alpha) < power:
        low, high = high, min(2 * high, most)
    if high > most or t_power(effect, high, alpha) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if t_power(effect, middle, alpha) < power:
            low = middle
        else:
            high = middle
    return high


def t_power(effect: float, n: int, alpha: float = 0.05) -> float:
    """Returns the power of a two-sided t test on n normal differences whose mean is ``effect`` standard deviations.

    >>> round(t_power(1.0, 10), 3)
    0.803
    """
    from scipy.stats import nct

    critical, shift = float(t_quantile(n - 1, 1 - alpha)), abs(effect) * math.sqrt(n)
    # Under a large shift scipy's far tail is NaN where it is below 1e-20.
    return float(nct.sf(critical, n - 1, shift) + np.nan_to_num(nct.cdf(-critical, n - 1, shift)))
