from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.statistics.p_values import holm


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
