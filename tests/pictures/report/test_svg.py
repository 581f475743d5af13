from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._pictures.report_page.charts import rounded
from kymograph._pictures.report_page.svg import Scale, labels, linear_ticks, log_ticks, number


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_within_and_have_labels_of_their_own(low: float, span: float) -> None:
    span = max(span, 1e-4 * abs(low))
    ticks = linear_ticks(low, low + span, 5)
    assert 2 <= len(ticks) <= 7 and all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    assert len(set(labels(ticks))) == len(ticks)


@given(st.floats(1e-12, 1e6), st.floats(1.001, 1e12))
def test_log_ticks_lie_within(low: float, factor: float) -> None:
    ticks = log_ticks(low, low * factor, 5)
    assert ticks == sorted(set(ticks)) and len(ticks) <= 8
    assert all(low * (1 - 1e-9) <= tick <= low * factor * (1 + 1e-9) for tick in ticks)


def test_scales_and_numbers() -> None:
    assert Scale(1, 100, 0, 10, log=True)(np.array([1, 10, 100])).tolist() == pytest.approx([0, 5, 10])
    assert math.isnan(Scale(1, 100, 0, 10, log=True).at(0))
    assert [number(v) for v in (0.5, -1.5e-7, 12345.0, 1e9, math.nan, -math.inf)] == [
        "0.5", "−1.5×10⁻⁷", "12,340", "10⁹", "–", "−∞"
    ]  # fmt: skip
    assert rounded([1.23456789, math.inf, 3]) == [1.2346, None, 3]
