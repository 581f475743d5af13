"""Standard deviations of samples: their intervals, the ratio of two variances, and which of several is the largest.

Everything here assumes that the values are normal, and depends on it far more than a t test does: with heavy tails the
intervals are too short and the tests reject too often. Take logarithms first if a quantity spans orders of magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kymograph._shapes import Shaped
from kymograph._statistics.intervals import Sample, moments


def sd_interval(values: Sample, level: float = 0.95) -> tuple[float, float]:
    """Returns the chi-square interval of the standard deviation; (0, 0) if all values are equal, NaN below two.

    >>> low, high = sd_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (0.521, 6.285)
    """
    from scipy.special import chdtri

    _, sd, n = moments(values)
    if n < 2:
        return math.nan, math.nan
    tail = (1 - level) / 2
    low, high = (sd * math.sqrt((n - 1) / float(chdtri(n - 1, upper))) for upper in (tail, 1 - tail))
    return low, high


def variance_ratio(
    left: Shaped[np.ndarray, " n"] | Sequence[float],
    right: Shaped[np.ndarray, " m"] | Sequence[float],
    level: float = 0.95,
) -> tuple[float, float, float]:
    """Returns left's variance over right's and its F interval (ratio, low, high), for independent samples.

    NaN if a sample has fewer than two values or if right does not vary.

    >>> ratio, low, high = variance_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    >>> ratio, round(low, 3), round(high, 3)
    (4.0, 0.103, 156.0)
    """
    from scipy.special import fdtri

    (_, one, n), (_, other, m) = moments(left), moments(right)
    if min(n, m) < 2 or other == 0:
        return math.nan, math.nan, math.nan
    ratio = (one / other) ** 2
    upper = 0.5 + level / 2
    return ratio, ratio / float(fdtri(n - 1, m - 1, upper)), ratio * float(fdtri(m - 1, n - 1, upper))


def larger_variance_p(
    left: Shaped[np.ndarray, " n"] | Sequence[float], right: Shaped[np.ndarray, " m"] | Sequence[float]
) -> float:
    """Returns the p-value of the one-sided F test that left's variance is no larger than right's.

    NaN if a sample has fewer than two values, or if one of them does not vary: equal values come from rounding, from a
    ceiling or from a source that has no effect, not from a normal distribution.

    >>> round(larger_variance_p([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]), 3)
    0.2
    """
    from scipy.special import fdtrc

    (_, one, n), (_, other, m) = moments(left), moments(right)
    if min(n, m) < 2 or one == 0 or other == 0:
        return math.nan
    return float(fdtrc(n - 1, m - 1, (one / other) ** 2))


def largest_variance(samples: Sequence[Sample]) -> tuple[int, float]:
    """Returns the index of the sample with the largest standard deviation, and the p-value that it is not the largest.

    The largest must exceed every other one, so its p-value starts from the largest of its one-sided F tests. For
    independent samples of one size, at least three, that is the test against the runner-up, and twice it, the two-sided
    test, is valid for any number of samples (Hung and Fithian, arXiv:1610.03944). Otherwise it is multiplied by the
    number of samples, any of which might have come out largest (Bonferroni). NaN if one of the tests is.

    >>> index, p = largest_variance([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.1, 1.2]])
    >>> index, round(p, 3)
    (1, 0.4)
    """
    if len(samples) < 2:
        raise ValueError("it takes at least two samples to ask which varies most")
    spreads, sizes = zip(*(moments(sample)[1:] for sample in samples), strict=True)
    if min(sizes) < 2:
        raise ValueError("a sample needs at least two values to vary")
    first = spreads.index(max(spreads))
    tests = [larger_variance_p(samples[first], sample) for index, sample in enumerate(samples) if index != first]
    if any(map(math.isnan, tests)):
        return first, math.nan
    chances = 2 if min(sizes) == max(sizes) >= 3 else len(samples)
    return first, min(1.0, chances * max(tests))
