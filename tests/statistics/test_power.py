from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from kymograph.statistics.power import (
    fewest_seeds,
    normal_samples,
    seeds_needed,
    seeds_to_show_effect,
    seeds_to_show_equivalence,
    t_power,
    tost_power,
)
from tests.statistics.drawn import exact_values, sample


@pytest.mark.parametrize(("effect", "known"), [(0.5, 34), (0.8, 15), (1.0, 10), (0.2, 199)])
def test_seeds_needed_are_the_textbooks(effect: float, known: int) -> None:
    """The numbers of G*Power for a two-sided paired t test at 5 % with 80 % power."""
    values = np.array([-1.0, 1.0]) * math.sqrt(0.5) + effect  # standard deviation 1
    assert seeds_needed(values, 0.0) == known
    assert seeds_needed(-values, 0.0) == known
    assert seeds_needed(values + 5, 5.0) == known


@pytest.mark.parametrize(("seed", "alpha", "power"), [(1, 0.05, 0.8), (2, 0.01, 0.9), (7, 0.05 / 14, 0.8)])
def test_seeds_needed_have_the_power_and_one_fewer_has_not(seed: int, alpha: float, power: float) -> None:
    values = sample(seed, mean=0.5)
    found = seeds_needed(values, -0.1, alpha=alpha, power=power)
    assert found is not None and found > 6

    def power_at(n: int) -> float:
        # A second way: the normal numerator integrated against the law of the standard deviation.
        shift = (values.mean() + 0.1) / values.std(ddof=1) * math.sqrt(n)
        critical = stats.t.isf(alpha / 2, n - 1) / math.sqrt(n - 1)
        s = np.linspace(*stats.chi.ppf([1e-13, 1 - 1e-13], n - 1), 4001)
        outside = stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift)
        return float(integrate.trapezoid(outside * stats.chi.pdf(s, n - 1), s))

    assert power_at(found) >= power > power_at(found - 1)
    assert t_power((values.mean() + 0.1) / values.std(ddof=1), found, alpha) == pytest.approx(power_at(found))


@given(exact_values, st.randoms())
def test_seeds_needed_do_not_depend_on_the_order(values: list[float], random) -> None:
    assert seeds_needed(values) == seeds_needed(random.sample(values, len(values)))


def test_seeds_needed_have_bounds() -> None:
    values = sample(1)
    assert seeds_needed(values, values.mean()) is None  # no effect: its power stays alpha
    assert seeds_needed(values - values.mean() + 0.2 * values.std(ddof=1), 0.0, most=198) is None
    assert seeds_needed(values - values.mean() + 0.2 * values.std(ddof=1), 0.0, most=199) == 199
    assert seeds_needed(values, 0.0, most=5) is None
    for effect in (3.0, 5.0, 12.0, 1e6, 1e300):
        assert seeds_needed(np.array([1 - 1e-8, 1 + 1e-8, 1.0]) * effect, 0.0) == 6
    assert all(seeds_needed(values, 0.0) is None for values in ([], [1.0], [0.1] * 7))


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
