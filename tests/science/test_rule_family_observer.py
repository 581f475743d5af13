"""When a run is measured, and what its curves come to."""

from __future__ import annotations

import itertools
import math

import pytest

from kymograph_studies.rule_family.training import measured_steps, phases


def test_steps_are_measured_at_equal_ratios_from_before_training_to_the_end() -> None:
    steps = measured_steps(360, 16)
    assert steps[0] == 0 and steps[1] == 1 and steps[-1] == 360
    late = [b / a for a, b in itertools.pairwise(steps) if a >= 16]
    assert max(late) <= 1.5
    assert measured_steps(1, 5) == (0, 1)


def test_half_the_fit_is_halfway_down_on_a_logarithmic_scale() -> None:
    found = phases([0, 10, 20, 30], [1.0, 0.5, 0.09, 0.01], [0.0, 0.4, 0.3, 0.1])
    assert found["half_fit_time"] == 21 and found["alignment_peak_time"] == 11
    assert found["alignment_at_half_fit"] == 0.3 and found["alignment_after_half_fit"] == 0.1
    assert found["loss_fall"] == pytest.approx(100)


@pytest.mark.parametrize("losses", [[1.0, 1.1, 1.2], [1.0, math.nan, 0.1], [1.0, 0.5, 0.0]])
def test_without_a_fit_there_are_no_phases(losses: list[float]) -> None:
    assert set(phases([0, 1, 2], losses, [0.0, 0.1, 0.2]).values()) == {None}


def test_without_alignment_there_are_no_phases() -> None:
    assert set(phases([0, 1, 2], [1.0, 0.5, 0.1], [math.nan] * 3).values()) == {None}
