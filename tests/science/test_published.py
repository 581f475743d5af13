"""Published values next to ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kymograph_studies.calibration import Calibration as CALIBRATION
from kymograph_studies.depth import Depth
from kymograph_studies.published import PublishedValue, WithPublished, compare
from kymograph_studies.snapshot import Snapshot as SNAPSHOT

VALUE = PublishedValue("dfa", "accuracy", "accuracy", ".30 to .31", 0.30, 0.31, {"epochs": 30})


def run(accuracy: float | None, arm: str = "dfa", **config: Any) -> Any:
    return SimpleNamespace(arm=arm, config={"epochs": 30, **config}, summary={"accuracy": accuracy})


def test_only_runs_of_the_arm_with_the_papers_settings_count() -> None:
    runs = [run(0.30), run(0.32), run(0.9, arm="bp"), run(0.8, epochs=100)]
    (found,) = compare([VALUE], runs)
    assert found.ours.values == (0.30, 0.32) and found.ours.mean == pytest.approx(0.31)
    assert found.settings == {"epochs": 30}


def test_settings_that_qualify_our_runs_are_shown_where_they_agree() -> None:
    """The published ViT has no stated number of epochs, so that three of ours were compared without saying so."""
    anywhere = PublishedValue("dfa", "accuracy", "accuracy", ".30", 0.30, 0.30)
    (found,) = compare([anywhere], [run(0.30, data="a", lr=1), run(0.31, data="b", lr=1)], ("epochs", "data", "seed"))
    assert found.settings == {"epochs": 30}


@pytest.mark.parametrize(
    ("ours", "agrees"),
    [
        ((0.28, 0.30), True),
        ((0.29, 0.33), True),
        ((0.305,), True),
        ((0.32, 0.4), False),  # the interval of two seeds reaches from 0 to 0.87
        ((0.1, 0.2), False),
        ((0.305, *(0.32 + 0.001 * n for n in range(9))), False),  # one seed among ten reaches the published range
        ((0.30, 0.31, None), False),
    ],
)
def test_values_agree_where_both_range_and_interval_overlap(ours: tuple[float | None, ...], agrees: bool) -> None:
    (found,) = compare([VALUE], [run(one) for one in ours])
    assert found.agrees is agrees


def test_a_value_without_runs_is_not_compared() -> None:
    assert compare([VALUE], [run(0.3, epochs=3)]) == []
    assert not compare([VALUE], [run(None)])[0].agrees


@pytest.mark.parametrize("study", [SNAPSHOT(), CALIBRATION()])
def test_what_is_published_is_about_arms_that_there_are(study: Any) -> None:
    values = [value for group in study.published.values() for value in group]
    assert isinstance(study, WithPublished) and not isinstance(Depth(), WithPublished)
    assert values and all(study.published), "every value has a source"
    assert {value.arm for value in values} <= {arm.name for arm in study.arms()}
    assert all(value.low <= value.high for value in values)
