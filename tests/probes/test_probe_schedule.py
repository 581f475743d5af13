from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._probes.schedule import Schedule


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("every", [1, 3, 10])
def test_without_a_budget_every_so_many_steps_are_measured(every: int) -> None:
    schedule = Schedule(every)
    assert [step for step in range(31) if schedule.due(step)] == list(range(0, 31, every))
    assert schedule.constant == (every == 1)


@pytest.mark.parametrize("resumed_after", [None, 0, 9, 11])
def test_a_multiple_that_the_step_number_skips_is_measured_at_the_next_step(resumed_after: int | None) -> None:
    """As where a framework counts the steps of two optimizers, and one of them starts later."""
    schedule, measured = Schedule(10), []
    for step in (0, *range(1, 52, 2)):
        if due := schedule.due(step):
            measured.append(step)
        schedule.end(step, due)
        if step == resumed_after:
            schedule, earlier = Schedule(10), schedule
            schedule.load_state(earlier.state())
    assert measured == [0, 11, 21, 31, 41, 51]


def test_the_state_of_an_earlier_version_has_no_last_step() -> None:
    schedule = Schedule(4)
    schedule.load_state({name: value for name, value in schedule.state().items() if name != "seen"})
    assert [step for step in range(5, 20) if schedule.due(step)] == [8, 12, 16]


@given(budget=st.floats(0.01, 0.5), plain=st.floats(1e-4, 1.0), extra=st.floats(0.0, 10.0), every=st.integers(1, 20))
def test_measuring_stays_within_its_budget(budget: float, plain: float, extra: float, every: int) -> None:
    clock = Clock()
    schedule = Schedule(every, budget, clock)
    spent = total = 0.0
    steps = 20_000
    measured_steps = []
    for step in range(steps):
        measured = schedule.due(step)
        schedule.begin()
        clock.now += plain * (1 + extra * measured)
        schedule.end(step, measured)
        if measured:
            measured_steps.append(step)
        if len(measured_steps) > 2:  # what it costs is known from the second on
            spent += plain * extra * measured
            total += plain
    if len(measured_steps) > 3:
        gaps = {b - a for a, b in itertools.pairwise(measured_steps[2:])}
        assert max(gaps) - min(gaps) <= 1 and min(gaps) >= max(every, extra / budget * (1 - 1e-6), 2)
        assert spent <= budget * total + 2 * plain * extra
        assert max(gaps) <= max(every, 2, extra / budget + 1 + 1e-6), "and no longer than it must be"


def test_the_interval_follows_what_measuring_costs() -> None:
    clock = Clock()
    schedule = Schedule(1, 0.1, clock)
    intervals = []
    for step in range(4000):
        measured = schedule.due(step)
        schedule.begin()
        clock.now += 1.0 + (2.0 if step < 2000 else 0.2) * measured
        schedule.end(step, measured)
        intervals.append(schedule.interval)
    assert intervals[1500] == 20 and intervals[-1] == 2
