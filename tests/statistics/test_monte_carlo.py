from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kymograph.statistics.p_values import drawn_p, monte_carlo_p


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
