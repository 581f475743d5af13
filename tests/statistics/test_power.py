from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from kymograph.statistics.power import seeds_needed, t_power
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
