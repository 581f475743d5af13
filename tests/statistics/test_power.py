"""Both tests on many samples at once; power, and the seeds needed for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats

from kymograph._statistics import p_values
from kymograph._statistics.p_values import holm, sign_flip_p, t_test
from kymograph._statistics.power import (
    TABLE_UP_TO,
    ManySamples,
    fewest_seeds,
    holm_many,
    normal_samples,
    seeds_to_show_effect,
    seeds_to_show_equivalence,
    t_power,
    tost_power,
)

tables = st.tuples(st.integers(1, 3), st.integers(2, 8)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-20, 20).map(lambda k: k / 8))
)


@settings(max_examples=60)
@given(tables, st.sampled_from([0.0, 0.375, -1.0]), st.sampled_from(["greater", "less"]))
def test_every_sample_has_the_p_values_of_both_tests(table: np.ndarray, against: float, alternative) -> None:
    """Multiples of 1/8 have many ties, and sums of them are exact."""
    samples = ManySamples(table)
    for index, row in enumerate(table):
        flip, student = sign_flip_p(row, against, alternative), t_test(row, against, alternative)
        assert samples.sign_flip_p(against, alternative)[index] == pytest.approx(flip)
        assert samples.t_p(against, alternative)[index] == pytest.approx(student, abs=1e-12)
        assert samples.p(against, alternative)[index] == pytest.approx(max(flip, student))


@pytest.mark.parametrize("n", [TABLE_UP_TO, TABLE_UP_TO + 1, 17, p_values.EXACT_UP_TO])
@pytest.mark.parametrize("alternative", ["greater", "less"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_p_value_is_exact_as_far_as_the_tests_own_is(n: int, alternative, ties: bool) -> None:
    """Effects of every size: where all numbers speak for the alternative, where none does, and in between."""
    draw = np.random.default_rng(n)
    table = draw.normal(size=(40, n)) + draw.uniform(-3, 3, (40, 1))
    table = np.round(2 * table) / 2 if ties else table
    for against in (0.0, -0.5, 1.25):
        exact = [sign_flip_p(row, against, alternative) for row in table]
        assert ManySamples(table).sign_flip_p(against, alternative).tolist() == exact


def test_drawn_subsets_agree_with_drawn_patterns() -> None:
    table = np.random.default_rng(1).normal(0.3, 1.0, (6, p_values.EXACT_UP_TO + 3))
    drawn = [sign_flip_p(row, 0.0, "greater") for row in table]
    np.testing.assert_allclose(ManySamples(table).sign_flip_p(0.0, "greater"), drawn, atol=0.02)


@pytest.mark.parametrize("n", [7, 15])
def test_an_infinite_bound_rules_out_everything_or_nothing(n: int) -> None:
    samples = ManySamples(np.random.default_rng(0).normal(size=(4, n)))
    assert (samples.p(np.inf, "greater") == 1).all() and (samples.p(np.inf, "less") == 1 / 2**n).all()
    assert (samples.p(-np.inf, "greater") == 1 / 2**n).all() and (samples.p(-np.inf, "less") == 1).all()


@pytest.mark.parametrize("value", [0.1, 0.0, -3e-7])
def test_equal_numbers_have_no_deviation_whatever_their_sum_rounds_to(value: float) -> None:
    samples = ManySamples(np.full((1, 7), value))
    for against in (0.0, 0.1):
        assert samples.t_p(against, "greater")[0] == t_test([value] * 7, against, "greater")


@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(0, 8).map(lambda k: k / 8))
)
def test_every_family_has_holms_p_values(table: np.ndarray) -> None:
    assert holm_many(table).tolist() == [holm(row.tolist()) for row in table]


def test_a_table_has_samples_and_seeds() -> None:
    with pytest.raises(ValueError, match="one row per sample"):
        ManySamples(np.zeros((3, 1)))


@pytest.mark.parametrize(("effect", "known"), [(0.5, 34), (0.8, 15), (1.0, 10), (0.2, 199)])
def test_the_seeds_of_the_t_test_are_the_textbooks(effect: float, known: int) -> None:
    """The numbers of G*Power for a two-sided paired t test at 5 % with 80 % power."""
    assert fewest_seeds(lambda n: t_power(effect, n), 0.8) == known
    assert fewest_seeds(lambda n: t_power(-effect, n), 0.8) == known


@pytest.mark.parametrize(("effect", "alpha", "power"), [(0.7, 0.05, 0.8), (0.9, 0.01, 0.9), (0.6, 0.05 / 14, 0.8)])
def test_the_fewest_seeds_have_the_power_and_one_fewer_has_not(effect: float, alpha: float, power: float) -> None:
    found = fewest_seeds(lambda n: t_power(effect, n, alpha), power)
    assert found is not None and found > 6

    def power_at(n: int) -> float:
        # A second way: the normal numerator integrated against the law of the standard deviation.
        shift = effect * math.sqrt(n)
        critical = stats.t.isf(alpha / 2, n - 1) / math.sqrt(n - 1)
        s = np.linspace(*stats.chi.ppf([1e-13, 1 - 1e-13], n - 1), 4001)
        outside = stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift)
        return float(integrate.trapezoid(outside * stats.chi.pdf(s, n - 1), s))

    assert power_at(found) >= power > power_at(found - 1)
    assert t_power(effect, found, alpha) == pytest.approx(power_at(found))


def test_the_fewest_seeds_have_bounds() -> None:
    assert fewest_seeds(lambda n: t_power(0.0, n), 0.8) is None, "without an effect, the power stays alpha"
    assert [fewest_seeds(lambda n: t_power(0.2, n), 0.8, most) for most in (5, 198, 199)] == [None, None, 199]
    least = seeds_to_show_effect(3.0, 0.05)
    assert least is not None and least <= 8
    assert {seeds_to_show_effect(effect, 0.05) for effect in (12.0, 1e6, 1e300, math.inf)} == {6}


def test_power_at_no_effect_is_alpha() -> None:
    for n in (2, 6, 100):
        assert t_power(0.0, n, 0.03) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("effect", "margin", "n", "alpha"), [(0.0, 1.0, 10, 0.05), (0.4, 1.0, 20, 0.05), (0.0, 0.8, 30, 0.01)]
)
def test_the_power_of_equivalence_is_that_of_simulated_samples(
    effect: float, margin: float, n: int, alpha: float
) -> None:
    draw = np.random.default_rng(n)
    mean, sd = draw.normal(effect, 1 / math.sqrt(n), 200_000), np.sqrt(draw.chisquare(n - 1, 200_000) / (n - 1))
    half = stats.t.isf(alpha, n - 1) * sd / math.sqrt(n)
    simulated = float(((mean - half > -margin) & (mean + half < margin)).mean())
    assert tost_power(effect, margin, n, alpha) == pytest.approx(simulated, abs=0.004)
    assert tost_power(-effect, margin, n, alpha) == pytest.approx(tost_power(effect, margin, n, alpha))


def test_both_tests_take_at_least_the_seeds_of_the_t_test_and_few_more() -> None:
    for alpha in (0.05, 0.05 / 8):
        for effect in (0.4, 0.7, 1.0, 1.6, 50.0):
            size = min(effect, 10.0)
            student = fewest_seeds(lambda n, d=size, a=alpha: t_power(d, n, a), 0.8)
            both = seeds_to_show_effect(effect, alpha)
            assert student is not None and both is not None and student <= both <= max(student + 2, 11)
            student = fewest_seeds(lambda n, d=size, a=alpha: tost_power(0.0, d, n, a), 0.8)
            both = seeds_to_show_equivalence(0.0, effect, alpha)
            assert student is not None and both is not None and student <= both <= max(student + 2, 11)
    assert seeds_to_show_equivalence(1.0, 1.0, 0.05) is None
    assert seeds_to_show_effect(0.01, 0.05) is None and seeds_to_show_effect(0.0, 0.05) is None


def test_larger_simulated_samples_continue_smaller_ones() -> None:
    small, large = normal_samples(6, 50), normal_samples(7, 50)
    assert np.abs(small._mean * 6 - large._mean * 7).max() < 5, "they differ by one number"
    assert normal_samples(7, 50) is large
