"""Student's t test of a mean."""

from __future__ import annotations

import math

from kymograph.statistics.alternatives import Alternative, check_alternative
from kymograph.statistics.samples import Sample, moments, vector_of


def t_test(values: Sample, against: float = 0.0, alternative: Alternative = "two-sided") -> float:
    """Returns the p-value of Student's test that the mean is ``against``; NaN below two seeds.

    If all values are equal, the statistic is infinite or 0/0; the p-value is the limit of a shrinking variance: 0 where
    the mean lies strictly beyond ``against`` in the alternative's direction, and 1 otherwise. A p-value of 0 is then
    not evidence of unlimited strength: the sign-flip test, which must agree, still gives no less than 1/2^n.

    >>> round(t_test([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    from scipy.special import stdtr

    check_alternative(alternative)
    mean, sd, n = moments(vector_of(values) - against)
    if n < 2:
        return math.nan
    # Positive where the mean favours the alternative.
    toward = {"greater": mean, "less": -mean, "two-sided": abs(mean)}[alternative]
    if sd == 0:
        return 0.0 if toward > 0 else 1.0
    tail = float(stdtr(n - 1, -toward / sd * math.sqrt(n)))
    return min(1.0, 2 * tail) if alternative == "two-sided" else tail
