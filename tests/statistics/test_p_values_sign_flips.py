from __future__ import annotations

import itertools
import math
from fractions import Fraction
from inspect import unwrap  # gives the function as users call it, without the shape checks of the tests

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph._statistics import p_values
from kymograph._statistics.p_values import ALTERNATIVES, Alternative, max_t, sign_flip_p, smallest_p, t_test

few_values = st.lists(st.integers(-8, 8).map(lambda k: k / 10), min_size=1, max_size=8)  # many ties, none exact
maps = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.lists(st.integers(-6, 6), min_size=n, max_size=n), min_size=1, max_size=4)
)


def naive(values: list[Fraction], against: Fraction, alternative: str) -> Fraction:
    """The definition in rational numbers, pattern by pattern."""
    differences = [value - against for value in values]
    observed = sum(differences)
    reached = 0
    for signs in itertools.product((1, -1), repeat=len(values)):
        total = sum(sign * difference for sign, difference in zip(signs, differences, strict=True))
        reached += {"greater": total >= observed, "less": total <= observed, "two-sided": abs(total) >= abs(observed)}[
            alternative
        ]
    return Fraction(reached, 2 ** len(values))


@given(few_values, st.integers(-2, 2), st.sampled_from(ALTERNATIVES))
def test_flips_are_those_of_the_definition_with_ties(values, tenths: int, alternative: Alternative) -> None:
    exact = [Fraction(round(10 * value), 10) for value in values]
    found = sign_flip_p(values, tenths / 10, alternative)
    assert found == float(naive(exact, Fraction(tenths, 10), alternative))


@pytest.mark.parametrize("n", [2, 5, 9, 11])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_flips_are_scipys(n: int, alternative: Alternative) -> None:
    values = np.random.default_rng(n).normal(0.4, 1.0, n)
    expected = stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative=alternative
    ).pvalue
    assert sign_flip_p(values, alternative=alternative) == pytest.approx(min(1.0, expected), abs=1e-8)


@given(few_values, st.sampled_from([0.25, 3.0, 1e-250]), st.randoms())
def test_order_sign_and_scale(values: list[float], factor: float, random) -> None:
    array = np.array(values)
    for alternative, opposite in zip(ALTERNATIVES, ("less", "greater", "two-sided"), strict=True):
        p = sign_flip_p(values, alternative=alternative)
        assert p == sign_flip_p(random.sample(values, len(values)), alternative=alternative)
        assert p == sign_flip_p(-array, alternative=opposite)
        assert p == sign_flip_p(factor * array, alternative=alternative)
        assert smallest_p(len(values), alternative) <= p <= 1


@pytest.mark.parametrize("n", [1, 2, 6, 10, 20])
def test_seeds_that_agree_reach_the_smallest_p(n: int) -> None:
    values = np.random.default_rng(n).uniform(0.5, 1.0, n)
    assert sign_flip_p(values, alternative="greater") == smallest_p(n, "greater") == 1 / 2**n
    assert sign_flip_p(values) == sign_flip_p(-values) == smallest_p(n, "two-sided") == 2 / 2**n
    assert sign_flip_p(values, alternative="less") == 1.0
    assert sign_flip_p([0.1] * n) == 2 / 2**n


def test_no_difference_gives_one() -> None:
    for alternative in ALTERNATIVES:
        assert sign_flip_p([0.0] * 8, alternative=alternative) == 1.0
        assert sign_flip_p([0.3] * 25, 0.3, alternative) == 1.0
        assert sign_flip_p([], alternative=alternative) == 1.0
        assert smallest_p(0, alternative) == 1.0
    assert sign_flip_p([0.1, 0.2, -0.3]) == 1.0  # their sum is 5e-17 in floating point
    assert sign_flip_p([2.0]) == 1.0 and sign_flip_p([2.0], alternative="greater") == 0.5


def test_zeros_cannot_tell_and_halve_nothing() -> None:
    assert sign_flip_p([1.0, 2.0, 3.0, 0.0, 0.0]) == sign_flip_p([1.0, 2.0, 3.0])


def test_twenty_seeds_are_exact_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0.5, 1.0, 20)
    summed: list[int] = []
    signed_sums = p_values._signed_sums

    def counted_sums(differences: np.ndarray) -> np.ndarray:
        sums = signed_sums(differences)
        summed.append(len(sums))
        return sums

    monkeypatch.setattr(p_values, "_signed_sums", counted_sums)
    p = sign_flip_p(values)
    assert summed == [2**10, 2**10], "two halves of the seeds, not all 2^20 patterns"
    codes = np.arange(2**20)
    sums = np.zeros(2**20)
    for index, value in enumerate(values):
        sums += np.where(codes >> index & 1, value, -value)
    assert p == (np.abs(sums) >= abs(values.sum()) - 1e-9).mean()


def test_monte_carlo_above_twenty_is_near_the_law_and_never_zero() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 30)
    assert sign_flip_p(values) == pytest.approx(t_test(values), abs=0.01)
    assert sign_flip_p(values) == sign_flip_p(values[::-1]) != sign_flip_p(values, seed=1)
    assert sign_flip_p(values, alternative="greater") == sign_flip_p(-values, alternative="less")
    assert sign_flip_p(np.ones(30), draws=999) == 1 / 1000
    same = np.concatenate([values[:20], np.zeros(1)])  # a zero changes nothing but the way of counting
    assert sign_flip_p(same) == pytest.approx(sign_flip_p(same[:20]), abs=0.005)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_misuse_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        sign_flip_p([1.0, bad])
    with pytest.raises(ValueError, match="finite"):
        sign_flip_p([1.0, 2.0], against=bad)
    with pytest.raises(ValueError, match="alternative"):
        unwrap(sign_flip_p)([1.0], alternative="larger")
    with pytest.raises(ValueError, match="alternative"):
        unwrap(smallest_p)(3, "larger")
    with pytest.raises(ValueError, match="finite"):
        max_t([[1.0, math.inf]])
    with pytest.raises(ValueError, match="axes"):
        unwrap(max_t)([1.0, 2.0])


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_test_keeps_its_level_and_has_the_power_it_is_known_for() -> None:
    draw = np.random.default_rng(5)
    null = [sign_flip_p(world) <= 0.05 for world in draw.laplace(0.0, 1.0, (2000, 8))]
    assert np.mean(null) < 0.05 + 0.02
    power = [sign_flip_p(world) <= 0.05 for world in draw.normal(1.0, 1.0, (2000, 10))]
    assert np.mean(power) == pytest.approx(0.81, abs=0.035)


def naive_max_t(values: np.ndarray) -> np.ndarray:
    """|t| itself, pattern by pattern."""

    def t(world: np.ndarray) -> np.ndarray:
        means, sds = world.mean(axis=0), world.std(axis=0, ddof=1)
        equal = np.ptp(world, axis=0) == 0
        infinite = np.where(world[0] == 0, 0.0, np.inf)
        return np.where(equal, infinite, np.abs(means) / np.where(equal, 1.0, sds) * math.sqrt(len(world)))

    observed = t(values)
    patterns = itertools.product((1.0, -1.0), repeat=len(values))
    largest = np.array([t(values * np.array(signs)[:, None]).max() for signs in patterns])
    return (largest[:, None] >= observed * (1 - 1e-9)).mean(axis=0)


@given(maps)
def test_max_t_is_that_of_the_definition(columns: list[list[int]]) -> None:
    values = np.array(columns, dtype=float).T
    found = max_t(values)
    assert found == pytest.approx(naive_max_t(values), abs=1e-12)
    assert (found >= [sign_flip_p(column) - 1e-12 for column in columns]).all()
    assert (found >= smallest_p(len(values), "two-sided") - 1e-12).all() and (found <= 1).all()


@given(maps, st.randoms())
def test_max_t_does_not_depend_on_order_sign_or_scale(columns: list[list[int]], random) -> None:
    values = np.array(columns, dtype=float).T
    n, m = values.shape
    found = max_t(values)
    assert np.array_equal(found, max_t(values[random.sample(range(n), n)]))
    assert np.array_equal(found, max_t(-values))
    assert np.array_equal(found, max_t(values * np.geomspace(1e-200, 1e200, m)))


def test_one_column_is_the_plain_test() -> None:
    values = np.random.default_rng(2).normal(0.6, 1.0, (9, 1))
    assert max_t(values)[0] == sign_flip_p(values[:, 0])


def test_missing_and_constant_columns() -> None:
    values = np.random.default_rng(3).normal(0.0, 1.0, (8, 5))
    values[:, 1], values[:, 2], values[3, 4] = 0.0, 0.3, math.nan
    found = max_t(values)
    assert math.isnan(found[4]) and found[1] == 1.0
    assert found[2] == 2 / 2**8  # only the observed pattern and its opposite give an infinite t
    assert np.array_equal(found[:4], max_t(values[:, :4]))
    assert np.isnan(max_t(np.full((6, 2), math.nan))).all()
    assert max_t(np.zeros((6, 0))).shape == (0,)
    assert list(max_t([[1.0, -2.0]])) == [1.0, 1.0]


def test_copies_of_one_column_cost_nothing_and_independent_ones_cost_less_than_bonferroni() -> None:
    draw = np.random.default_rng(4)
    column = draw.normal(0.9, 1.0, (10, 1))
    alone = sign_flip_p(column[:, 0])
    assert max_t(np.repeat(column, 50, axis=1)) == pytest.approx(np.full(50, alone))
    others = draw.normal(0.0, 1.0, (10, 9))
    assert alone < max_t(np.concatenate([column, others], axis=1))[0] <= 10 * alone + 1e-12


def test_monte_carlo_agrees_with_the_enumeration() -> None:
    draw = np.random.default_rng(6)
    values = draw.normal(0.5, 1.0, (21, 6))
    values[20] = 0.0  # 21 seeds are drawn, the 20 that matter are enumerated
    drawn, exact = max_t(values, draws=20_000, seed=1), max_t(values[:20])
    assert drawn == pytest.approx(exact, abs=0.015)
    assert np.array_equal(drawn, max_t(values[::-1], draws=20_000, seed=1))
    assert max_t(np.ones((40, 2)), draws=99) == pytest.approx([0.01, 0.01])


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_map_keeps_its_family_wise_level() -> None:
    draw = np.random.default_rng(7)
    worlds = draw.normal(0.0, 1.0, (400, 8, 1)) + draw.normal(0.0, 1.0, (400, 8, 12))
    assert np.mean([max_t(world).min() <= 0.05 for world in worlds]) < 0.05 + 0.04


@pytest.mark.parametrize("n", [21, 24, 37, 300])
def test_sums_that_are_looked_up_are_those_of_the_drawn_signs(n: int) -> None:
    """With 2,000 seeds a verdict's tests used to draw the same 200 million signs anew, half a minute per claim."""
    differences = np.sort(np.random.default_rng(n).normal(size=n))
    plain = np.concatenate([signs @ differences for signs in p_values._drawn_signs(n, 5_000, 0, 2**20 // n)])
    looked_up = p_values._drawn_sums(differences, 5_000, 0)
    np.testing.assert_allclose(looked_up, plain, rtol=0, atol=1e-13 * np.abs(differences).sum())
