from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._pictures.live.state import POINTS, headlines, remaining_seconds, thin
from kymograph._runs.declaration import Declaration
from kymograph._sweep.heartbeat import Beat
from kymograph._wording import format_duration


def running(done: int, steps: int, runs: int = 1, started: float = 0.0, updated: float = 10.0) -> Beat:
    return Beat(1, tuple(map(str, range(runs))), done, steps, "", started, updated, True)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=500))
def test_a_thinned_series_is_short_finite_and_within_bounds(values: list[float]) -> None:
    thinned = thin(np.array(values))
    assert len(thinned) == min(len(values), POINTS)
    finite = [value for value in values if math.isfinite(value)]
    for value in thinned:
        assert value is None or min(finite) * (1 - 1e-9) - 1e-9 <= value + abs(value) * 1e-9 + 1e-9
    if len(finite) == len(values) <= POINTS:
        assert list(thinned) == pytest.approx(values)


def test_a_process_needs_for_the_rest_what_it_needed_so_far() -> None:
    # 25 of 100 steps in 10 s: 30 s remain at the time of the beat, 28 s two seconds later, none long after.
    assert remaining_seconds([[]], [0], [running(25, 100)], 10.0) == pytest.approx(30)
    assert remaining_seconds([[]], [0], [running(25, 100)], 12.0) == pytest.approx(28)
    assert remaining_seconds([[]], [0], [running(25, 100)], 500.0) == 0


def test_waiting_runs_take_what_their_arm_took_and_are_shared() -> None:
    beats = [running(25, 100), running(25, 100)]
    assert remaining_seconds([[4.0, 6.0], [20.0]], [2, 1], beats[:1], 10.0) == pytest.approx(30 + 2 * 5 + 20)
    assert remaining_seconds([[4.0, 6.0], [20.0]], [2, 1], beats, 10.0) == pytest.approx((60 + 30) / 2)
    # An arm without a finished run takes as long as any run did: (4 + 6) / 2.
    assert remaining_seconds([[4.0, 6.0], []], [0, 3], beats[:1], 10.0) == pytest.approx(30 + 15)
    # Nothing finished: 4 runs train together in 40 s, so a run takes 10 s.
    assert remaining_seconds([[]], [2], [running(25, 100, runs=4)], 10.0) == pytest.approx(30 + 20)


def test_the_slowest_process_bounds_the_end() -> None:
    beats = [running(1, 100), running(99, 100)]
    assert remaining_seconds([[]], [0], beats, 10.0) == pytest.approx(990)


def test_no_estimate_while_nothing_is_known() -> None:
    assert remaining_seconds([[]], [5], [running(0, 100)], 10.0) is None
    assert remaining_seconds([[8.0]], [0], [running(0, 100)], 3.0) == pytest.approx(5)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (90, "2 min"), (3700, "1 h 2 min"), (3 * 86400, "3 days")]
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_of_p_values_the_median_is_shown() -> None:
    declared = Declaration("s", headlines={"chance": "p"}, p_values=("chance",))
    (found,) = headlines(declared, [{"chance": value} for value in (0.01, 0.02, 0.9)])
    assert (found.label, found.mean, found.interval) == ("p, median", 0.02, None)
