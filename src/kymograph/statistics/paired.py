"""Effects, intervals and tests on n paired differences, one per seed.

``values`` is always the vector of differences left - right (or of log ratios) with one entry per seed: whatever varies
inside a seed was reduced to one number before. Values must be finite; a ``ValueError`` says otherwise, because a seed
without a number is for the judge to report, not for a formula to drop. Nothing here depends on the order of the seeds.
"""

from __future__ import annotations

import math
import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Alternative = Literal["greater", "less", "two-sided"]
ALTERNATIVES = ("greater", "less", "two-sided")
LEAST_SEEDS = 6
"""Below this no exact two-sided test can reach 5 %: 2/2^5 is 0.0625."""
LEAST_FOR_BOOTSTRAP = 10
"""Below this a bootstrap interval of a mean covers well under its level."""


def finite(values: ArrayLike) -> np.ndarray:
    """Returns ``values`` as a float64 vector in ascending order; anything that is not finite is refused."""
    vector = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not np.isfinite(vector).all():
        raise ValueError("statistics over seeds need finite values; leave out the seeds that have none, and say so")
    return vector


def t_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Returns Student's interval of the mean; a point if all values are equal, (NaN, NaN) below two seeds.

    The 90 % interval is the one that decides equivalence at 5 %: it lies within the margin if and only if
    ``tost_p`` is below 0.05.
    """
    from scipy.special import stdtrit

    mean, sd, n = _moments(finite(values))
    if n < 2:
        return math.nan, math.nan
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * sd / math.sqrt(n)
    return mean - half, mean + half


def t_test(values: ArrayLike, against: float = 0.0, alternative: Alternative = "two-sided") -> float:
    """Returns the p-value of Student's test that the mean is ``against``; NaN below two seeds.

    If all values are equal the statistic is infinite or 0/0; the p-value is the limit of a shrinking variance: 0 where
    the mean lies strictly beyond ``against`` in the alternative's direction, and 1 otherwise. That is no evidence of
    unlimited strength, only all that a test on a variance can say without one; the sign-flip test, which must agree,
    still gives no less than 1/2^n.
    """
    from scipy.special import stdtr

    check_alternative(alternative)
    mean, sd, n = _moments(finite(np.subtract(values, against)))
    if n < 2:
        return math.nan
    # The mean as evidence for the alternative: positive counts for it.
    toward = {"greater": mean, "less": -mean, "two-sided": abs(mean)}[alternative]
    if sd == 0:
        return 0.0 if toward > 0 else 1.0
    tail = float(stdtr(n - 1, -toward / sd * math.sqrt(n)))
    return min(1.0, 2 * tail) if alternative == "two-sided" else tail


def tost_p(values: ArrayLike, margin: float) -> float:
    """Returns the p-value of two one-sided t tests (TOST) that the mean lies strictly within ``±margin``."""
    if not margin >= 0:
        raise ValueError(f"an equivalence margin is a size and cannot be {margin}")
    above, below = t_test(values, -margin, "greater"), t_test(values, margin, "less")
    return math.nan if math.isnan(above) else max(above, below)


def hedges_g(values: ArrayLike) -> float:
    """Returns Hedges' g_z: the mean in standard deviations of the differences, freed of its small-sample bias.

    The correction is the exact J(m) = Gamma(m/2) / (sqrt(m/2) Gamma((m-1)/2)) with m = n - 1. NaN below three seeds,
    where the expectation that it corrects does not exist, and where all values are equal but not zero.
    """
    mean, sd, n = _moments(finite(values))
    if n < 3 or (sd == 0 and mean != 0):
        return math.nan
    if mean == 0:
        return 0.0
    m = n - 1
    correction = math.exp(math.lgamma(m / 2) - math.lgamma((m - 1) / 2)) / math.sqrt(m / 2)
    return correction * mean / sd


def bca_interval(
    values: ArrayLike, level: float = 0.95, draws: int = 9999, seed: int = 0
) -> tuple[float, float] | None:
    """Returns the bootstrap's bias-corrected and accelerated interval of the mean.

    None below ten seeds, where it covers too little, and where it is not defined, as when all values are equal.
    """
    from scipy import stats

    vector = finite(values)
    if len(vector) < LEAST_FOR_BOOTSTRAP or vector[0] == vector[-1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # degenerate data give NaN, which is told below
        found = stats.bootstrap(
            (vector,), np.mean, n_resamples=draws, confidence_level=level, method="BCa",
            random_state=np.random.default_rng(seed),
        ).confidence_interval  # fmt: skip
    low, high = float(found.low), float(found.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def iqm(values: ArrayLike) -> float:
    """Returns the interquartile mean: the mean without the lowest and the highest quarter, as rliable defines it."""
    from scipy import stats

    vector = finite(values)
    return float(stats.trim_mean(vector, 0.25)) if len(vector) else math.nan


def superiority(left: ArrayLike, right: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Returns the share of seeds in which left exceeds right, with Wilson's interval; a tie counts one half.

    ``left`` and ``right`` are paired: entry i of both belongs to the same seed.
    """
    from scipy.special import ndtri

    n = len(finite(left))
    if n != len(finite(right)):
        raise ValueError(f"paired values have one entry per seed on both sides, not {n} and {len(finite(right))}")
    if n == 0:
        return math.nan, math.nan, math.nan
    share = float((np.greater(left, right) + 0.5 * np.equal(left, right)).mean())
    z = float(ndtri(0.5 + level / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At a share of 0 or 1 the interval's end is the share; rounding must not put it outside.
    return share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def probability_of_improvement(left: ArrayLike, right: ArrayLike) -> float:
    """Returns P(X > Y) + P(X = Y)/2 over all pairs of runs, paired or not: Mann and Whitney's U / (n_x n_y)."""
    first, second = finite(left), finite(right)
    if not len(first) or not len(second):
        return math.nan
    below, not_above = np.searchsorted(second, first, "left"), np.searchsorted(second, first, "right")
    return float((below + not_above).sum() / (2 * len(first) * len(second)))


def seeds_needed(
    values: ArrayLike, against: float = 0.0, alpha: float = 0.05, power: float = 0.8, most: int = 1000
) -> int | None:
    """Returns the fewest seeds, at least six, with which the two-sided t test at ``alpha`` has ``power``.

    The effect is taken to be the one seen, (mean - against)/sd, which is itself uncertain: this is a plan, not a
    promise. None if it takes more than ``most``, or if the values are fewer than two or all equal.
    """
    mean, sd, n = _moments(finite(np.subtract(values, against)))
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
    """Returns the power of a two-sided t test on n normal differences whose mean is ``effect`` standard deviations."""
    from scipy.special import stdtrit
    from scipy.stats import nct

    critical, shift = float(stdtrit(n - 1, 1 - alpha / 2)), abs(effect) * math.sqrt(n)
    # Under a large shift scipy's far tail is NaN where it is below 1e-20.
    return float(nct.sf(critical, n - 1, shift) + np.nan_to_num(nct.cdf(-critical, n - 1, shift)))


def check_alternative(alternative: str) -> None:
    """Refuses an alternative that no test here has."""
    if alternative not in ALTERNATIVES:
        raise ValueError(f"a test has no alternative {alternative!r}; choose from {', '.join(ALTERNATIVES)}")


def _moments(vector: np.ndarray) -> tuple[float, float, int]:
    """Returns mean, standard deviation (n - 1) and n; the deviation is exactly 0 where all values are equal.

    Sums are exact (fsum) and taken on values scaled by a power of two, so that neither tiny gradients nor huge norms
    lose their variance when squared.
    """
    n = len(vector)
    if n == 0:
        return math.nan, math.nan, 0
    if vector.min() == vector.max():
        return float(vector[0]), 0.0 if n > 1 else math.nan, n
    _, exponent = np.frexp(np.abs(vector).max())
    scaled = np.ldexp(vector, -exponent)
    mean = math.fsum(scaled) / n
    deviations = scaled - mean
    _, finer = np.frexp(np.abs(deviations).max())
    square = math.fsum(np.ldexp(deviations, -finer) ** 2) / (n - 1)
    return math.ldexp(mean, int(exponent)), math.ldexp(math.sqrt(square), int(exponent + finer)), n
