"""Samples, their moments, and intervals: against scipy, by simulation, and where they are undefined."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from inspect import unwrap  # gives the function as users call it, without the shape checks of the tests

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph._statistics.effects import hedges_g, iqm, probability_of_improvement, superiority
from kymograph._statistics.intervals import (
    bca_interval,
    binomial_upper_bound,
    finite,
    mean_interval,
    moments,
    normal_interval,
    t_interval,
    t_quantile,
    vector_of,
    welch_interval,
    wilson_interval,
)
from kymograph._statistics.p_values import t_test
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


def test_the_quantile_is_scipys_and_missing_without_degrees_of_freedom() -> None:
    degrees = np.arange(1, 40)
    np.testing.assert_allclose(t_quantile(degrees, 0.9), stats.t.ppf(0.95, degrees), rtol=1e-10)
    assert float(t_quantile(7)) == t_quantile(np.array([7]))[0]
    assert np.isnan(t_quantile(np.array([0, -1]))).all() and math.isnan(float(t_quantile(0)))


@pytest.mark.parametrize("n", [2, 3, 6, 10, 40])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_t_interval_is_scipys(n: int, level: float) -> None:
    expected = stats.ttest_1samp(sample(n, n), 0.0).confidence_interval(level)
    assert t_interval(sample(n, n), level) == pytest.approx((expected.low, expected.high), rel=1e-8)


@given(exact_values, st.randoms())
def test_the_t_interval_does_not_depend_on_the_order(values: list[float], random) -> None:
    assert t_interval(values) == t_interval(random.sample(values, len(values)))


def test_equal_values_have_a_point_interval_and_one_value_none() -> None:
    assert t_interval([0.1] * 7) == (0.1, 0.1)
    for values in ([], [1.0]):
        assert all(math.isnan(end) for end in t_interval(values))


@pytest.mark.usefixtures("shapes_unchecked")
def test_intervals_cover_what_they_say() -> None:
    worlds = np.random.default_rng(11).normal(1.0, 2.0, (2000, 6))
    covered = np.mean([low <= 1.0 <= high for low, high in map(t_interval, worlds)])
    assert abs(covered - 0.95) < 0.02  # four standard errors
    rejected = np.mean([t_test(world, 1.0) < 0.05 for world in worlds])
    assert rejected == pytest.approx(1 - covered)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_mean_interval_is_students_t_on_values_or_logs(log: bool, level: float) -> None:
    values = np.random.default_rng(0).lognormal(size=(8, 5))
    table = np.log(values) if log else values
    low, high = stats.t.interval(level, 7, table.mean(0), stats.sem(table, axis=0))
    back = np.exp if log else np.asarray
    np.testing.assert_allclose(
        mean_interval(values, log, level), [back(table.mean(0)), back(low), back(high)], rtol=1e-12
    )


def test_the_mean_interval_is_the_t_interval_of_each_column() -> None:
    values = np.random.default_rng(1).normal(size=(9, 4))
    _, low, high = mean_interval(values)
    for column, *ends in zip(values.T, low, high, strict=True):
        assert ends == pytest.approx(t_interval(column), rel=1e-12)


def test_the_mean_interval_leaves_missing_values_out_and_needs_two() -> None:
    values = np.array([[1.0, np.nan, 5.0, np.inf], [3.0, np.nan, np.nan, 4.0]])
    mean, low, high = mean_interval(values)
    assert mean[0] == 2 and np.isnan(mean[1]) and mean[2] == 5 and mean[3] == 4
    assert low[0] < 2 < high[0] and np.isnan(low[1:]).all() and np.isnan(high[1:]).all()
    geometric, _, _ = mean_interval(np.array([[1.0, 0.0], [4.0, 9.0], [np.nan, -1.0]]), log=True)
    assert geometric == pytest.approx([2.0, 9.0]), "a value that has no logarithm is left out"


def test_the_mean_interval_of_the_largest_numbers_is_infinite() -> None:
    _, low, high = mean_interval(np.array([[1e300], [3e300]]))
    assert low[0] == -math.inf and high[0] == math.inf


@given(st.integers(1, 300), st.data())
def test_wilsons_interval_is_scipys(trials: int, data) -> None:
    successes, level = data.draw(st.integers(0, trials)), data.draw(st.sampled_from([0.9, 0.95]))
    expected = stats.binomtest(successes, trials).proportion_ci(level, method="wilson")
    low, high = wilson_interval(successes, trials, level)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= high <= 1


def test_wilsons_interval_of_no_trials_is_missing() -> None:
    assert all(map(math.isnan, wilson_interval(0, 0)))


def test_the_normal_interval_is_that_of_a_normal_law() -> None:
    assert normal_interval(2.0, 3.0) == pytest.approx(stats.norm.interval(0.95, 2.0, 3.0), rel=1e-4)


def test_bca_is_scipys_and_does_not_depend_on_the_order() -> None:
    values = np.exp(sample(5, 12))
    found = bca_interval(values, draws=999, seed=3)
    expected = stats.bootstrap(
        (np.sort(values),), np.mean, n_resamples=999, method="BCa", random_state=np.random.default_rng(3)
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), rel=1e-8)
    assert found == bca_interval(values[::-1], draws=999, seed=3)
    assert found[0] < values.mean() < found[1] and found[1] - values.mean() > values.mean() - found[0]


def test_bca_is_missing_where_it_would_mislead() -> None:
    assert bca_interval(sample(1, 9)) is None
    assert bca_interval([0.1] * 12) is None


@pytest.mark.parametrize(("n", "m"), [(2, 3), (6, 6), (10, 40)])
def test_welch_is_scipys(n: int, m: int) -> None:
    left, right = sample(n, n), 3 * sample(m + 1, m)
    expected = stats.ttest_ind(left, right, equal_var=False).confidence_interval(0.9)
    assert welch_interval(left, right, 0.9) == pytest.approx((expected.low, expected.high))
    assert welch_interval([1.0, 1.0], [0.0, 0.0]) == (1.0, 1.0)
    assert all(map(math.isnan, welch_interval([1.0], [0.0, 1.0])))


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95]))
def test_the_bound_of_a_rate_is_clopper_and_pearsons(counts: tuple[int, int], level: float) -> None:
    k, n = counts
    bound = binomial_upper_bound(k, n, level)
    expected = stats.binomtest(k, n, alternative="less").proportion_ci(level, "exact").high
    assert bound == pytest.approx(expected)
    if k < n:
        assert stats.binom.cdf(k, n, bound) == pytest.approx(1 - level), "the definition"


def test_a_rate_without_trials_has_no_bound() -> None:
    assert math.isnan(binomial_upper_bound(0, 0))
