"""Samples of one number per seed, their moments, and confidence intervals.

A sample is the vector of differences left - right (or of log ratios) with one entry per seed: whatever varies within a
seed was reduced to one number before. Values that are not finite raise a ``ValueError``, because a seed without a
number is for the judge to report, not for a formula to drop. No statistic depends on the order of the seeds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from kymograph._shapes import Float, Int, Shaped

Sample: TypeAlias = Shaped[np.ndarray, " seeds"] | Sequence[float]
"""One number per seed."""
LEAST_FOR_BOOTSTRAP = 10
"""With fewer seeds, a bootstrap interval of a mean covers it well below the nominal level."""
ROUNDED_NORMAL_QUANTILE = 1.96
"""The normal 97.5 % point to three digits, as textbooks print it."""


def finite(values: Sample) -> Float[np.ndarray, " seeds"]:
    """Returns ``values`` in float64 and ascending order; raises ValueError if one is not finite.

    >>> finite([2, 1])
    array([1., 2.])
    """
    vector = np.sort(vector_of(values))
    if not np.isfinite(vector).all():
        raise ValueError("statistics over seeds need finite values; leave out the seeds that have none, and say so")
    return vector


def vector_of(values: Sample) -> Float[np.ndarray, " seeds"]:
    """Returns ``values`` as a float64 vector, in the order given; raises ValueError if it has other axes."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"a sample has one number per seed, not {vector.ndim} axes; reduce each seed to one number")
    return vector


def moments(values: Sample) -> tuple[float, float, int]:
    """Returns mean, standard deviation (n - 1) and n; the deviation is exactly 0 where all values are equal.

    Sums are exact (fsum) and taken on values scaled by a power of two, so that neither tiny gradients nor huge norms
    lose their variance when squared. The mean of no values is NaN, and so is the deviation of fewer than two.

    >>> moments([1.0, 2.0, 3.0])
    (2.0, 1.0, 3)
    """
    vector = finite(values)
    n = len(vector)
    if n == 0:
        return math.nan, math.nan, 0
    if vector[0] == vector[-1]:
        return float(vector[0]), 0.0 if n > 1 else math.nan, n
    _, exponent = np.frexp(np.abs(vector).max())
    scaled = np.ldexp(vector, -exponent)
    mean = math.fsum(scaled) / n
    deviations = scaled - mean
    _, finer = np.frexp(np.abs(deviations).max())
    square = math.fsum(np.ldexp(deviations, -finer) ** 2) / (n - 1)
    with np.errstate(over="ignore"):  # the deviation of the largest numbers is infinite
        return float(np.ldexp(mean, exponent)), float(np.ldexp(math.sqrt(square), exponent + finer)), n


def t_quantile(degrees: float | Int[np.ndarray, "*shape"], level: float = 0.95) -> Float[np.ndarray, "*shape"]:
    """Returns the point that |t| exceeds with probability 1 - ``level``; NaN below one degree of freedom.

    >>> float(t_quantile(5).round(3))
    2.571
    """
    from scipy.special import stdtrit

    return np.asarray(stdtrit(degrees, 0.5 + level / 2))


def t_interval(values: Sample, level: float = 0.95) -> tuple[float, float]:
    """Returns Student's interval of the mean; a point if all values are equal, (NaN, NaN) below two seeds.

    The interval of level 1 - 2 alpha corresponds to equivalence at alpha: it lies within the margin if and only if
    both one-sided t tests against the margin's ends (TOST) have p-values below alpha.

    >>> low, high = t_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    mean, sd, n = moments(values)
    if n < 2:
        return math.nan, math.nan
    half = float(t_quantile(n - 1, level)) * sd / math.sqrt(n)
    return mean - half, mean + half


def welch_interval(
    left: Shaped[np.ndarray, " n"] | Sequence[float],
    right: Shaped[np.ndarray, " m"] | Sequence[float],
    level: float = 0.95,
) -> tuple[float, float]:
    """Returns Welch's (1947) interval of the difference of two means, as if the samples were not paired.

    A point if neither sample varies; (NaN, NaN) if one has fewer than two values.

    >>> low, high = welch_interval([1.0, 2.0, 3.0], [0.0, 2.0, 4.0])
    >>> round(low, 2), round(high, 2)
    (-4.16, 4.16)
    """
    (one, sd_one, n), (other, sd_other, m) = moments(left), moments(right)
    if min(n, m) < 2:
        return math.nan, math.nan
    largest = max(sd_one, sd_other)
    if largest == 0:
        return one - other, one - other
    # Over the larger deviation, so that no square overflows or vanishes.
    first, second = (sd_one / largest) ** 2 / n, (sd_other / largest) ** 2 / m
    degrees = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (m - 1))
    half = float(t_quantile(degrees, level)) * largest * math.sqrt(first + second)
    return one - other - half, one - other + half


def mean_interval(
    values: Shaped[np.ndarray, "seeds x"],
    log: bool = False,
    level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " x"], Float[np.ndarray, " x"]]:
    """Returns the mean over seeds of ``values`` (seeds, x) and its Student's t interval (low, high), each (x,).

    Values that are not finite are left out, so n may differ from one x to the next. The interval is NaN where fewer
    than two seeds have a value, the mean where none has. With ``log``, all three are computed on logarithms and
    transformed back: the mean is geometric, and values that are not positive are left out. The ends are clipped to
    ``bounds``, e.g. those of an accuracy: the mean cannot lie outside, so coverage is unaffected.

    >>> mean, low, high = mean_interval(np.array([[1.0, 1.0], [3.0, np.nan]]))
    >>> mean.tolist(), low.round(1).tolist()
    ([2.0, 1.0], [-10.7, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # intervals of huge numbers may be infinite
        table = np.log(values.astype(np.float64)) if log else values.astype(np.float64)
        table = np.where(np.isfinite(table), table, np.nan)
        n = np.sum(~np.isnan(table), axis=0)
        total = np.nansum(table, axis=0)
        mean = np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0)
        squares = np.nansum((table - mean) ** 2, axis=0)
        variance = np.divide(squares, n - 1, out=np.full(n.shape, np.nan), where=n > 1)
        half = t_quantile(n - 1, level) * np.sqrt(variance / np.maximum(n, 1))
        low, high = mean - half, mean + half
        if log:
            mean, low, high = np.exp(mean), np.exp(low), np.exp(high)
        return (mean, low, high) if bounds is None else (mean, np.clip(low, *bounds), np.clip(high, *bounds))


def wilson_interval(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Returns the score interval (Wilson, 1927) of a proportion; (NaN, NaN) for no trials.

    ``successes`` need not be whole: a tie may count one half.

    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 2), round(high, 2)
    (0.49, 0.94)
    """
    from scipy.special import ndtri

    if trials == 0:
        return math.nan, math.nan
    z = float(ndtri(0.5 + level / 2))
    p, zz = successes / trials, z * z / trials
    centre = (p + zz / 2) / (1 + zz)
    half = z / (1 + zz) * math.sqrt(p * (1 - p) / trials + zz / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def binomial_upper_bound(successes: int, trials: int, level: float = 0.95) -> float:
    """Returns the exact one-sided upper bound of a proportion (Clopper and Pearson, 1934); NaN for no trials.

    The largest rate at which ``successes`` or fewer still have a probability of 1 - ``level``.

    >>> round(binomial_upper_bound(0, 10), 3)
    0.259
    """
    from scipy.special import betaincinv

    if trials == 0:
        return math.nan
    return 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, level))


def normal_interval(estimate: float, standard_error: float) -> tuple[float, float]:
    """Returns the 95 % interval of a normally distributed estimate, with the rounded quantile.

    >>> normal_interval(0.5, 0.1)
    (0.304, 0.696)
    """
    half = ROUNDED_NORMAL_QUANTILE * standard_error
    return estimate - half, estimate + half


def bca_interval(values: Sample, level: float = 0.95, draws: int = 9999, seed: int = 0) -> tuple[float, float] | None:
    """Returns the bootstrap's bias-corrected and accelerated interval of the mean.

    None below ten seeds, where its coverage is too low, and where it is undefined, as when all values are equal.
    """
    from scipy import stats

    vector = finite(values)
    if len(vector) < LEAST_FOR_BOOTSTRAP or vector[0] == vector[-1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # degenerate data give NaN, which the last line turns into None
        found = stats.bootstrap(
            (vector,), np.mean, n_resamples=draws, confidence_level=level, method="BCa",
            random_state=np.random.default_rng(seed),
        ).confidence_interval  # fmt: skip
    low, high = float(found.low), float(found.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
