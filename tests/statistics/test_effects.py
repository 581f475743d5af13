from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph._statistics.effects import auc, hedges_g, iqm, pairing_gain, probability_of_improvement, superiority
from tests.statistics.drawn import exact_values, sample

few_levels = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@pytest.mark.parametrize("n", [3, 4, 10, 400])
def test_hedges_correction_is_the_gamma_ratio_and_frees_g_of_bias(n: int) -> None:
    values = sample(n, n)
    m = n - 1
    # J = 1 / (sqrt(m) E[1/chi_m]) makes the estimate unbiased; the expectation by quadrature.
    inverse = stats.chi(m).expect(lambda x: 1 / x, lb=0)
    d = values.mean() / values.std(ddof=1)
    assert hedges_g(values) == pytest.approx(d / (math.sqrt(m) * inverse), rel=1e-6)


@given(exact_values)
def test_iqm_is_the_trimmed_mean(values: list[float]) -> None:
    cut = len(values) // 4
    assert iqm(values) == pytest.approx(np.mean(sorted(values)[cut : len(values) - cut]), rel=1e-8)
    assert iqm(values) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-8, abs=1e-12)


@given(exact_values, st.randoms())
def test_effects_do_not_depend_on_the_order(values: list[float], random) -> None:
    shuffled = random.sample(values, len(values))
    assert repr(hedges_g(values)) == repr(hedges_g(shuffled)) and iqm(values) == iqm(shuffled)


@given(few_levels, few_levels)
def test_probability_of_improvement_is_mann_and_whitneys(left: list[int], right: list[int]) -> None:
    expected = stats.mannwhitneyu(left, right, method="asymptotic").statistic / (len(left) * len(right))
    assert probability_of_improvement(left, right) == pytest.approx(expected, abs=1e-12)
    assert probability_of_improvement(left, right) + probability_of_improvement(right, left) == 1


@given(few_levels, few_levels)
def test_auc_counts_the_pairs_and_is_the_area_under_the_curve(larger: list[int], smaller: list[int]) -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a in larger for b in smaller]
    found = auc(np.array(larger, dtype=np.float32), np.array(smaller, dtype=np.float32))
    assert found == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    thresholds = sorted({*larger, *smaller, 99}, reverse=True)
    curve = [[np.mean(np.array(side) >= t) for side in (smaller, larger)] for t in thresholds]
    assert found == pytest.approx(np.trapezoid(*np.array(curve).T[::-1]), abs=1e-12)


def test_auc_takes_what_overflowed_for_large_and_needs_both_sides() -> None:
    assert auc(np.array([math.inf]), np.array([1e308, math.inf])) == 0.75
    assert auc(np.array([math.nan]), np.array([math.inf, 1.0])) == 1.0
    assert math.isnan(auc(np.array([]), np.array([1.0]))) and math.isnan(auc(np.array([1.0]), np.array([])))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=15))
def test_superiority_counts_seeds_with_wilsons_interval(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs).T
    share, low, high = superiority(left, right)
    won, tied = sum(a > b for a, b in pairs), sum(a == b for a, b in pairs)
    assert share == pytest.approx((won + tied / 2) / len(pairs))
    assert 0 <= low <= share <= high <= 1
    if tied == 0:
        expected = stats.binomtest(won, len(pairs)).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-8)
    assert superiority(right, left) == pytest.approx((1 - share, 1 - high, 1 - low))


def test_effects_that_do_not_exist_are_missing() -> None:
    assert math.isnan(hedges_g([0.1] * 7)) and hedges_g([0.0] * 7) == 0.0
    assert all(math.isnan(hedges_g(values)) for values in ([], [1.0], [1.0, 2.0]))
    assert math.isnan(iqm([])) and iqm([2.0]) == 2.0
    assert math.isnan(superiority([], [])[0]) and math.isnan(probability_of_improvement([], [1.0]))


def test_paired_sides_have_the_same_seeds() -> None:
    with pytest.raises(ValueError, match="one entry per seed"):
        superiority([1.0], [1.0, 2.0])


def test_pairing_gains_what_the_correlation_gives() -> None:
    """With correlation r and equal spreads, the paired interval is narrower by the root of 1 - r, to the degrees."""
    draw = np.random.default_rng(0)
    shared, one, other = draw.normal(size=(3, 4000))
    left, right = math.sqrt(0.75) * shared + 0.5 * one, math.sqrt(0.75) * shared + 0.5 * other
    assert pairing_gain(left, right) == pytest.approx(2.0, rel=0.05)
    assert pairing_gain(one, other) == pytest.approx(1.0, rel=0.05)
    apart = stats.ttest_ind(left[:8], right[:8], equal_var=False).confidence_interval()
    paired = stats.ttest_rel(left[:8], right[:8]).confidence_interval()
    assert pairing_gain(left[:8], right[:8]) == pytest.approx((apart.high - apart.low) / (paired.high - paired.low))


def test_pairing_gain_without_variance() -> None:
    assert pairing_gain([1.0, 2.0, 4.0], [0.0, 1.0, 3.0]) == math.inf
    assert math.isnan(pairing_gain([1.0, 1.0], [0.0, 0.0]))
    huge = np.array([1e200, 2e200, 4e200])
    assert pairing_gain(huge, huge[::-1]) == pytest.approx(pairing_gain(huge / 1e200, huge[::-1] / 1e200))
