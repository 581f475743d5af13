"""The time at which Kolen-Pollack's feedback should have turned."""

from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.alignment import angle
from kymograph_studies.rule_family.claims import DEGREES, steps_to_angle


def test_weights_that_keep_their_length_are_within_the_angle_at_that_time_and_not_long_before() -> None:
    lr, wd = 0.1, 0.2
    time = steps_to_angle(lr, wd)
    assert time is not None
    draw = torch.Generator().manual_seed(0)
    weight, feedback = torch.randn(2, 100_000, generator=draw, dtype=torch.float64)
    learned = torch.randn(100_000, generator=draw, dtype=torch.float64)  # what W consists of by then, of its first size
    apart = (feedback - weight) * (1 - lr * wd) ** time
    assert angle(learned, learned + apart) == pytest.approx(DEGREES, abs=0.3)
    earlier = (feedback - weight) * (1 - lr * wd) ** (time - 20)
    assert angle(learned, learned + earlier) > DEGREES


def test_half_the_decay_takes_twice_the_time() -> None:
    fast, slow = steps_to_angle(0.01, 0.1), steps_to_angle(0.005, 0.1)
    assert fast is not None and slow is not None
    assert slow / fast == pytest.approx(2, rel=0.01)
    assert (
        math.sqrt(2) * (1 - 0.001) ** fast <= math.sin(math.radians(DEGREES)) < math.sqrt(2) * (1 - 0.001) ** (fast - 1)
    )


@pytest.mark.parametrize(("lr", "wd"), [(0.1, 0.0), (2.0, 1.0)])
def test_without_decay_there_is_no_such_time(lr: float, wd: float) -> None:
    assert steps_to_angle(lr, wd) is None
