"""Effect sizes: standardised mean, interquartile mean, how often one side is larger, what pairing gained."""

from __future__ import annotations

import math

import numpy as np

from kymograph._shapes import Shaped
from kymograph._statistics.intervals import (
    Sample,
    finite,
    moments,
    t_interval,
    vector_of,
    welch_interval,
    wilson_interval,
)


def hedges_g(values: Sample) -> float:
    """Returns Hedges' g_z: the mean in standard deviations of the differences, corrected for small-sample bias.

    The correction is the exact J(m) = Gamma(m/2) / (sqrt(m/2) Gamma((m-1)/2)) with m = n - 1. NaN below three seeds,
    where the expectation to be corrected does not exist, and where all values are equal but not zero.

    >>> round(hedges_g([1.0, 2.0, 3.0]), 3)
    1.128
    """
    mean, sd, n = moments(values)
    if n < 3 or (sd == 0 and mean != 0):
        return math.nan
    if mean == 0:
        return 0.0
    m = n - 1
    correction = math.exp(math.lgamma(m / 2) - math.lgamma((m - 1) / 2)) / math.sqrt(m / 2)
    return correction * mean / sd


def iqm(values: Sample) -> float:
    """Returns the interquartile mean: the mean without the lowest and the highest quarter, as rliable defines it.

    >>> iqm([1.0, 2.0, 3.0, 100.0])
    2.5
    """
    from scipy import stats

    vector = finite(values)
    return float(stats.trim_mean(vector, 0.25)) if len(vector) else math.nan


def superiority(left: Sample, right: Sample, level: float = 0.95) -> tuple[float, float, float]:
    """Returns the share of seeds in which left exceeds right, with Wilson's interval; a tie counts one half.

    ``left`` and ``right`` are paired: entry i of both belongs to the same seed. NaN without seeds.

    >>> superiority([2.0, 3.0], [1.0, 3.0])[0]
    0.75
    """
    n = len(finite(left))
    if n != len(finite(right)):
        raise ValueError(f"paired values must have one entry per seed on both sides, not {n} and {len(finite(right))}")
    if n == 0:
        return math.nan, math.nan, math.nan
    won = float((np.greater(left, right) + 0.5 * np.equal(left, right)).sum())
    share = won / n
    low, high = wilson_interval(won, n, level)
    # At a share of 0 or 1 the interval's end is the share; rounding must not exclude it.
    return share, min(share, low), max(share, high)


def auc(larger: Shaped[np.ndarray, " n"], smaller: Shaped[np.ndarray, " m"]) -> float:
    """Returns the area under the ROC curve: the share of all n m pairs in which ``larger`` is larger, ties one half.

    Only the order of the values counts, so infinite ones are allowed; NaN ranks above all numbers, as in numpy's sort.
    Returns NaN if one side is empty.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    if not len(larger) or not len(smaller):
        return math.nan
    ordered = np.sort(smaller)
    below, not_above = np.searchsorted(ordered, larger, "left"), np.searchsorted(ordered, larger, "right")
    return float((below + not_above).sum() / (2 * len(larger) * len(smaller)))


def probability_of_improvement(left: Sample, right: Sample) -> float:
    """Returns P(X > Y) + P(X = Y)/2 over all pairs of runs, paired or not: Mann and Whitney's U / (n_x n_y).

    >>> probability_of_improvement([2.0, 3.0], [1.0, 2.0])
    0.875
    """
    return auc(finite(left), finite(right))


def pairing_gain(left: Sample, right: Sample) -> float:
    """Returns how many times wider the 95 % interval of the difference of means would be without pairing.

    The width of Welch's interval over that of Student's for the paired differences: 2 means that pairing halved it, 1
    that it gained nothing, less than 1 that it widened it. Infinite if the differences do not vary but the sides do;
    NaN if nothing varies.

    >>> round(pairing_gain([1.0, 2.0, 3.0], [0.0, 1.1, 2.1]), 1)
    16.2
    """
    unpaired = welch_interval(left, right)
    paired = t_interval(vector_of(left) - vector_of(right))
    without, with_it = unpaired[1] - unpaired[0], paired[1] - paired[0]
    if with_it == 0:
        return math.inf if without > 0 else math.nan
    return without / with_it
