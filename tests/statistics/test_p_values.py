"""Student's test, draws of a null, and Holm's correction."""

from __future__ import annotations

import math
from inspect import unwrap  # gives the function as users call it, without the shape checks of the tests

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph._statistics.p_values import (
    ALTERNATIVES,
    Alternative,
    check_alternative,
    drawn_p,
    holm,
    monte_carlo_p,
    t_test,
)
from tests.statistics.drawn import exact_values, sample


@pytest.mark.parametrize("n", [2, 3, 6, 10, 40])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("against", [0.0, -0.7, 3.0])
def test_t_is_scipys(n: int, alternative: Alternative, against: float) -> None:
    values = sample(n, n)
    expected = stats.ttest_1samp(values, against, alternative=alternative)
    assert t_test(values, against, alternative) == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-14)
    left, right = sample(n + 1, n), sample(n + 2, n)
    expected = stats.ttest_rel(left, right, alternative=alternative)
    assert t_test(left - right, alternative=alternative) == pytest.approx(expected.pvalue, rel=1e-8)


@given(exact_values, st.sampled_from([0.25, 3.0, 1000.0]), st.sampled_from([0.0, 0.5]), st.randoms())
def test_order_sign_and_scale(values: list[float], factor: float, against: float, random) -> None:
    shuffled = random.sample(values, len(values))
    array = np.array(values)
    for alternative, opposite in zip(ALTERNATIVES, ("less", "greater", "two-sided"), strict=True):
        p = t_test(values, against, alternative)
        assert p == t_test(shuffled, against, alternative)
        assert p == t_test(-array, -against, opposite)
        assert p == pytest.approx(t_test(factor * array, factor * against, alternative), rel=1e-9)
        assert 0 <= p <= 1


def test_equal_values_have_the_limiting_p_values() -> None:
    values = [0.1] * 7
    assert t_test(values) == t_test(values, alternative="greater") == 0.0
    assert t_test(values, alternative="less") == 1.0
    assert [t_test(values, 0.1, alternative) for alternative in ALTERNATIVES] == [1.0] * 3


def test_too_few_seeds_give_no_number() -> None:
    for values in ([], [1.0]):
        assert math.isnan(t_test(values))


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="no alternative 'larger'"):
        check_alternative("larger")
    with pytest.raises(ValueError, match="no alternative 'larger'"):
        unwrap(t_test)([1.0, 2.0], alternative="larger")
    with pytest.raises(ValueError, match="finite"):
        t_test([1.0, 2.0], against=math.nan)


def test_p_values_are_never_zero_and_missing_stays_missing() -> None:
    null = np.arange(99) / 100
    assert monte_carlo_p(5.0, null) == 0.01 and monte_carlo_p(-1.0, null) == 1.0
    assert monte_carlo_p(0.5, null) == pytest.approx((1 + 49) / 100)
    assert math.isnan(monte_carlo_p(math.nan, null))


@given(st.integers(0, 5), st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_a_p_value_is_the_rank_among_the_draws_from_either_side(observed: int, null: list[int]) -> None:
    everything = np.array([observed, *null])
    # The share of all values, the observed one among them, that are at least (at most) as extreme.
    assert monte_carlo_p(observed, null) == pytest.approx(np.mean(everything >= observed))
    assert monte_carlo_p(observed, null, "less") == pytest.approx(
        stats.percentileofscore(everything, observed, kind="weak") / 100
    )
    assert monte_carlo_p(observed, null, "less") == monte_carlo_p(-observed, [-value for value in null])


def test_counts_of_a_map_become_p_values_at_once() -> None:
    assert drawn_p(np.array([0, 49, 99]), 99).tolist() == [0.01, 0.5, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_holms(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    order = np.argsort(p_values, kind="stable")
    expected = np.maximum.accumulate([min(1.0, p_values[i] * (len(p_values) - rank)) for rank, i in enumerate(order)])
    assert [adjusted[i] for i in order] == pytest.approx(list(expected))
    assert all(a >= p - 1e-12 for a, p in zip(adjusted, p_values, strict=True))


@given(
    st.lists(st.integers(1, 400).map(lambda k: k / 1000), min_size=1, max_size=6), st.sampled_from([0.01, 0.05, 0.2])
)
def test_an_adjusted_p_is_below_alpha_where_the_step_down_procedure_rejects(
    p_values: list[float], alpha: float
) -> None:
    left = dict(enumerate(p_values))
    rejected = set()
    while left and min(left.values()) * len(left) <= alpha:
        first = min(left, key=lambda index: left[index])
        rejected.add(first)
        del left[first]
    assert {index for index, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_a_missing_p_stays_missing_and_is_not_counted() -> None:
    assert math.isnan(holm([0.1, math.nan])[1]) and holm([0.1, math.nan])[0] == 0.1
    assert holm([]) == []
