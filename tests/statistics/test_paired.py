from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from kymograph.statistics import paired
from kymograph.statistics.paired import ALTERNATIVES, Alternative

# Multiples of 1/64: sums of them are exact, so properties hold to the last bit.
values_of = st.lists(st.integers(-640, 640).map(lambda k: k / 64), min_size=2, max_size=12)


def sample(seed: int, n: int = 10, mean: float = 0.4) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, n)


@pytest.mark.parametrize("n", [2, 3, 6, 10, 40])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("against", [0.0, -0.7, 3.0])
def test_t_is_scipys(n: int, alternative: Alternative, against: float) -> None:
    values = sample(n, n)
    expected = stats.ttest_1samp(values, against, alternative=alternative)
    assert paired.t_test(values, against, alternative) == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-14)
    left, right = sample(n + 1, n), sample(n + 2, n)
    expected = stats.ttest_rel(left, right, alternative=alternative)
    assert paired.t_test(left - right, alternative=alternative) == pytest.approx(expected.pvalue, rel=1e-8)
    for level in (0.9, 0.95):
        interval = stats.ttest_1samp(values, 0.0).confidence_interval(level)
        assert paired.t_interval(values, level) == pytest.approx((interval.low, interval.high), rel=1e-8)


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e200])
def test_tiny_and_huge_values_keep_their_variance(factor: float) -> None:
    values = sample(3)
    assert paired.t_test(values * factor) == pytest.approx(paired.t_test(values), rel=1e-9)
    assert paired.hedges_g(values * factor) == pytest.approx(paired.hedges_g(values), rel=1e-9)
    assert np.divide(paired.t_interval(values * factor), factor) == pytest.approx(paired.t_interval(values), rel=1e-9)


@given(values_of, st.sampled_from([0.25, 3.0, 1000.0]), st.sampled_from([0.0, 0.5]), st.randoms())
def test_order_sign_and_scale(values: list[float], factor: float, against: float, random) -> None:
    shuffled = random.sample(values, len(values))
    array = np.array(values)
    for alternative, opposite in zip(ALTERNATIVES, ("less", "greater", "two-sided"), strict=True):
        p = paired.t_test(values, against, alternative)
        assert p == paired.t_test(shuffled, against, alternative)
        assert p == paired.t_test(-array, -against, opposite)
        assert p == pytest.approx(paired.t_test(factor * array, factor * against, alternative), rel=1e-9)
        assert 0 <= p <= 1
    for statistic in (paired.t_interval, paired.hedges_g, paired.iqm, paired.seeds_needed):
        assert repr(statistic(values)) == repr(statistic(shuffled))


@given(values_of, st.sampled_from([0.125, 0.5, 2.0]))
def test_tost_is_below_alpha_where_the_ninety_percent_interval_is_within_the_margin(values, margin: float) -> None:
    low, high = paired.t_interval(values, 0.9)
    assume(min(abs(low + margin), abs(high - margin)) > 1e-9)
    assert (paired.tost_p(values, margin) < 0.05) == (-margin < low and high < margin)


def test_tost_is_the_worse_of_two_tests() -> None:
    values = sample(4, mean=0.0)
    tests = [stats.ttest_1samp(values, -0.8, alternative="greater"), stats.ttest_1samp(values, 0.8, alternative="less")]
    assert paired.tost_p(values, 0.8) == pytest.approx(max(test.pvalue for test in tests), rel=1e-8)
    with pytest.raises(ValueError, match="margin"):
        paired.tost_p(values, -1.0)


def test_equal_values_have_a_point_interval_and_the_limiting_p_values() -> None:
    values = [0.1] * 7  # their sum over 7 is not 0.1 in floating point
    assert paired.t_interval(values) == (0.1, 0.1)
    assert paired.t_test(values) == paired.t_test(values, alternative="greater") == 0.0
    assert paired.t_test(values, alternative="less") == 1.0
    assert [paired.t_test(values, 0.1, alternative) for alternative in ALTERNATIVES] == [1.0] * 3
    assert paired.tost_p(values, 0.2) == 0.0 and paired.tost_p(values, 0.1) == 1.0
    assert math.isnan(paired.hedges_g(values)) and paired.hedges_g([0.0] * 7) == 0.0
    assert paired.bca_interval([0.1] * 12) is None
    assert paired.seeds_needed(values, 0.0) is None


def test_too_few_seeds_give_no_number() -> None:
    for values in ([], [1.0]):
        assert all(math.isnan(end) for end in paired.t_interval(values))
        assert math.isnan(paired.t_test(values)) and math.isnan(paired.tost_p(values, 1.0))
        assert math.isnan(paired.hedges_g(values)) and paired.seeds_needed(values, 0.0) is None
    assert math.isnan(paired.hedges_g([1.0, 2.0]))
    assert paired.bca_interval(sample(1, 9)) is None
    assert math.isnan(paired.iqm([])) and paired.iqm([2.0]) == 2.0
    assert math.isnan(paired.superiority([], [])[0]) and math.isnan(paired.probability_of_improvement([], [1.0]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "statistic",
    [
        paired.t_interval, paired.t_test, paired.hedges_g, paired.bca_interval, paired.iqm, paired.seeds_needed,
        lambda v: paired.tost_p(v, 1.0), lambda v: paired.superiority(v, [0.0] * 3),
        lambda v: paired.superiority([0.0] * 3, v), lambda v: paired.probability_of_improvement([0.0], v),
    ],
)  # fmt: skip
def test_values_that_are_not_finite_are_refused(statistic: Callable, bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        statistic([1.0, bad, 2.0])


def test_other_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="alternative"):
        paired.t_test([1.0, 2.0], alternative="larger")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one entry per seed"):
        paired.superiority([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        paired.t_test([1.0, 2.0], against=math.nan)


@pytest.mark.parametrize("n", [3, 4, 10, 400])
def test_hedges_correction_is_the_gamma_ratio_and_frees_g_of_bias(n: int) -> None:
    values = sample(n, n)
    m = n - 1
    # J = 1 / (sqrt(m) E[1/chi_m]) makes the estimate unbiased; the expectation by quadrature.
    inverse = stats.chi(m).expect(lambda x: 1 / x, lb=0)
    d = values.mean() / values.std(ddof=1)
    assert paired.hedges_g(values) == pytest.approx(d / (math.sqrt(m) * inverse), rel=1e-6)


def test_bca_is_scipys_and_does_not_depend_on_the_order() -> None:
    values = np.exp(sample(5, 12))
    found = paired.bca_interval(values, draws=999, seed=3)
    expected = stats.bootstrap(
        (np.sort(values),), np.mean, n_resamples=999, method="BCa", random_state=np.random.default_rng(3)
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), rel=1e-8)
    assert found == paired.bca_interval(values[::-1], draws=999, seed=3)
    assert found[0] < values.mean() < found[1] and found[1] - values.mean() > values.mean() - found[0]


@given(values_of)
def test_iqm_is_the_trimmed_mean(values: list[float]) -> None:
    cut = len(values) // 4
    assert paired.iqm(values) == pytest.approx(np.mean(sorted(values)[cut : len(values) - cut]), rel=1e-8)
    assert paired.iqm(values) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-8, abs=1e-12)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_probability_of_improvement_is_mann_and_whitneys(left: list[int], right: list[int]) -> None:
    expected = stats.mannwhitneyu(left, right, method="asymptotic").statistic / (len(left) * len(right))
    assert paired.probability_of_improvement(left, right) == pytest.approx(expected, abs=1e-12)
    assert paired.probability_of_improvement(left, right) + paired.probability_of_improvement(right, left) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=15))
def test_superiority_counts_seeds_with_wilsons_interval(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs).T
    share, low, high = paired.superiority(left, right)
    won, tied = sum(a > b for a, b in pairs), sum(a == b for a, b in pairs)
    assert share == pytest.approx((won + tied / 2) / len(pairs))
    assert 0 <= low <= share <= high <= 1
    if tied == 0:
        expected = stats.binomtest(won, len(pairs)).proportion_ci(0.95, method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-8)
    assert paired.superiority(right, left) == pytest.approx((1 - share, 1 - high, 1 - low))


@pytest.mark.parametrize(("effect", "known"), [(0.5, 34), (0.8, 15), (1.0, 10), (0.2, 199)])
def test_seeds_needed_are_the_textbooks(effect: float, known: int) -> None:
    """The numbers of G*Power for a two-sided paired t test at 5 % with 80 % power."""
    values = np.array([-1.0, 1.0]) * math.sqrt(0.5) + effect  # standard deviation 1
    assert paired.seeds_needed(values, 0.0) == known
    assert paired.seeds_needed(-values, 0.0) == known
    assert paired.seeds_needed(values + 5, 5.0) == known


@pytest.mark.parametrize(("seed", "alpha", "power"), [(1, 0.05, 0.8), (2, 0.01, 0.9), (7, 0.05 / 14, 0.8)])
def test_seeds_needed_have_the_power_and_one_fewer_has_not(seed: int, alpha: float, power: float) -> None:
    values = sample(seed, mean=0.5)
    found = paired.seeds_needed(values, -0.1, alpha=alpha, power=power)
    assert found is not None and found > 6

    def power_at(n: int) -> float:
        # A second way: the normal numerator integrated against the law of the standard deviation.
        shift = (values.mean() + 0.1) / values.std(ddof=1) * math.sqrt(n)
        critical = stats.t.isf(alpha / 2, n - 1) / math.sqrt(n - 1)
        s = np.linspace(*stats.chi.ppf([1e-13, 1 - 1e-13], n - 1), 4001)
        outside = stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift)
        return float(integrate.trapezoid(outside * stats.chi.pdf(s, n - 1), s))

    assert power_at(found) >= power > power_at(found - 1)
    assert paired.t_power((values.mean() + 0.1) / values.std(ddof=1), found, alpha) == pytest.approx(power_at(found))


def test_seeds_needed_have_bounds() -> None:
    values = sample(1)
    assert paired.seeds_needed(values, values.mean()) is None  # no effect: its power stays alpha
    assert paired.seeds_needed(values - values.mean() + 0.2 * values.std(ddof=1), 0.0, most=198) is None
    assert paired.seeds_needed(values - values.mean() + 0.2 * values.std(ddof=1), 0.0, most=199) == 199
    assert paired.seeds_needed(values, 0.0, most=5) is None
    for effect in (3.0, 5.0, 12.0, 1e6, 1e300):
        assert paired.seeds_needed(np.array([1 - 1e-8, 1 + 1e-8, 1.0]) * effect, 0.0) == 6


def test_power_at_no_effect_is_alpha() -> None:
    for n in (2, 6, 100):
        assert paired.t_power(0.0, n, 0.03) == pytest.approx(0.03)


def test_intervals_cover_what_they_say() -> None:
    draw = np.random.default_rng(11)
    worlds = draw.normal(1.0, 2.0, (2000, 6))
    covered = np.mean([low <= 1.0 <= high for low, high in map(paired.t_interval, worlds)])
    assert abs(covered - 0.95) < 0.02  # four standard errors
    rejected = np.mean([paired.t_test(world, 1.0) < 0.05 for world in worlds])
    assert rejected == pytest.approx(1 - covered)
