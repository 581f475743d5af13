from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kymograph.selftest.worlds import LEVEL, ManyDecisions, RateBound, measured


@pytest.mark.parametrize(("most", "worlds"), [(0.05, 100), (0.05, 10_000), (0.025, 2_000), (0.5, 300)])
def test_a_judge_at_its_bound_fails_by_chance_as_rarely_as_stated(most: float, worlds: int) -> None:
    bound = RateBound(most=most)
    first = next(count for count in range(worlds + 1) if not bound.holds(count, worlds))
    assert stats.binom.sf(first - 1, worlds, most) <= 1 - LEVEL < stats.binom.sf(first - 2, worlds, most)


def test_power_fails_if_it_is_below_by_more_than_chance() -> None:
    bound = RateBound(least=0.8)
    last = next(count for count in range(1000, -1, -1) if not bound.holds(count, 1000))
    assert stats.binom.cdf(last, 1000, 0.8) <= 1 - LEVEL < stats.binom.cdf(last + 1, 1000, 0.8)


def test_a_rate_is_found_out_once_there_are_enough_worlds() -> None:
    bound = RateBound(most=0.05)
    assert bound.holds(0, 1) and bound.holds(9, 100) and bound.holds(590, 10_000) and not bound.holds(600, 10_000)
    assert not RateBound(most=0.025).holds(320, 10_000)
    both = RateBound(least=0.14, most=0.19)
    assert [both.holds(count, 10_000) for count in (1200, 1670, 2100)] == [False, True, False]


def test_bounds_are_said_in_words() -> None:
    words = [str(bound) for bound in (RateBound(most=0.025), RateBound(least=0.78), RateBound(0.19, 0.14))]
    assert words == ["at most 2.5 %", "at least 78 %", "14 to 19 %"]


def test_a_world_counts_once_and_the_shares_are_of_all_verdicts() -> None:
    supported = np.array([[True, True], [False, True], [False, False], [False, False]])
    none = np.zeros_like(supported)
    row = measured("two claims", 10, ManyDecisions(supported, none, none), "SUPPORTED", supported, RateBound(most=0.6))
    assert (row.worlds, row.count, row.rate, row.supported, row.seeds) == (4, 2, 0.5, 0.375, "10")
    assert row.passed and row.kind == "error"
