from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from kymograph.runs.summaries import arm_headlines, headline_number


def test_a_headline_number_is_the_mean_over_seeds_with_students_interval() -> None:
    values = np.random.default_rng(0).lognormal(size=7)
    number = headline_number(values.tolist())
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (number.mean, number.low, number.high) == pytest.approx((values.mean(), *expected), rel=1e-12)
    assert number.values == tuple(values) and number.n == 7 and number.missing == 0 and number.true is None


@pytest.mark.parametrize("absent", [None, math.nan, math.inf, "Infinity", "text"])
def test_what_is_not_a_finite_number_is_missing(absent: object) -> None:
    number = headline_number([1.0, absent, 3])
    assert number.values == (1.0, None, 3.0) and number.mean == 2.0 and (number.n, number.missing) == (2, 1)
    assert math.isnan(headline_number([absent]).mean) and math.isnan(headline_number([]).mean)


def test_one_value_or_equal_values_have_no_spread() -> None:
    low, high = headline_number([2.0, 3.0]).interval
    assert low < 2.5 < high
    assert math.isnan(headline_number([2.0]).low) and headline_number([2.0, 2.0]).interval == (2.0, 2.0)


def test_truth_values_are_counted_unless_numbers_are_among_them() -> None:
    assert headline_number([True, False, True, None]).true == 2
    assert headline_number([True, 0.5]).true is None and headline_number([None]).true is None


def test_an_arm_counts_its_runs_and_those_that_diverged() -> None:
    summaries = [{"loss": 1.0, "finite": True}, {"loss": None, "finite": False}, {"finite": None}]
    arm = arm_headlines(summaries, ["loss", "absent"])
    assert (arm.runs, arm.diverged) == (3, 1)
    assert arm.numbers["loss"].values == (1.0, None, None) and arm.numbers["absent"].n == 0
