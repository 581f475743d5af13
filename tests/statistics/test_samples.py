"""What holds for every statistic of a sample: finite values only, one per seed, in any order and on any scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from inspect import unwrap  # gives the function as users call it, without the shape checks of the tests

import numpy as np
import pytest
from hypothesis import given

from kymograph.statistics.effects import hedges_g, iqm, probability_of_improvement, superiority
from kymograph.statistics.intervals import bca_interval, finite, moments, t_interval, vector_of
from kymograph.statistics.p_values import t_test
from tests.statistics.drawn import exact_values, sample


@given(exact_values)
def test_moments_are_those_of_rational_arithmetic(values: list[float]) -> None:
    mean, sd, n = moments(values)
    exact = [Fraction(value) for value in values]
    assert n == len(values)
    assert mean == pytest.approx(float(statistics.mean(exact)), rel=1e-15, abs=1e-15)
    assert sd == pytest.approx(math.sqrt(statistics.variance(exact)), rel=1e-14)


def test_moments_of_few_equal_and_enormous_values() -> None:
    assert moments([])[2] == 0 and math.isnan(moments([])[0])
    assert moments([3.0])[0] == 3.0 and math.isnan(moments([3.0])[1])
    assert moments([0.1] * 7) == (0.1, 0.0, 7)  # their sum over 7 is not 0.1 in floating point
    mean, sd, _ = moments([1.7e308, -1.7e308])
    assert mean == 0 and sd == math.inf


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e200])
def test_tiny_and_huge_values_keep_their_variance(factor: float) -> None:
    values = sample(3)
    assert t_test(values * factor) == pytest.approx(t_test(values), rel=1e-9)
    assert hedges_g(values * factor) == pytest.approx(hedges_g(values), rel=1e-9)
    assert np.divide(t_interval(values * factor), factor) == pytest.approx(t_interval(values), rel=1e-9)


def test_a_sample_is_sorted_for_sums_and_keeps_its_order_for_pairs() -> None:
    assert finite([2, 1, 3]).tolist() == [1.0, 2.0, 3.0] and vector_of([2, 1, 3]).tolist() == [2.0, 1.0, 3.0]
    assert finite(np.array([1, 2], dtype=np.float32)).dtype == np.float64


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "statistic",
    [
        finite, moments, t_interval, t_test, hedges_g, bca_interval, iqm,
        lambda v: superiority(v, [0.0] * 3),
        lambda v: superiority([0.0] * 3, v), lambda v: probability_of_improvement([0.0], v),
    ],
)  # fmt: skip
def test_values_that_are_not_finite_are_refused(statistic: Callable, bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        statistic([1.0, bad, 2.0])


def test_a_table_is_no_sample() -> None:
    # Several numbers per seed, taken for as many seeds, would make any p-value small.
    with pytest.raises(ValueError, match="one number per seed"):
        unwrap(vector_of)(np.zeros((3, 2)))
