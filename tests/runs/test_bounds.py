from __future__ import annotations

import numpy as np
import pytest

from kymograph.runs.declaration import NOT_NEGATIVE, Declaration, bounds_of
from kymograph.runs.summaries import arm_headlines, headline_number
from kymograph.statistics.intervals import mean_interval
from kymograph.studies.loading import load_study


def test_intervals_of_bounded_quantities_stay_inside_their_bounds() -> None:
    """The interval of accuracies 0.9, 0.99, 1 used to end at 1.1."""
    summaries = [{"test_accuracy": value, "loss": value} for value in (0.9, 0.99, 1.0)]
    numbers = arm_headlines(summaries, ["test_accuracy", "loss"]).numbers
    assert numbers["loss"].high > 1.0 and numbers["test_accuracy"].high == 1.0
    assert numbers["loss"].low == numbers["test_accuracy"].low, "an end that is inside stays where it is"
    declared = arm_headlines(summaries, ["loss"], {"loss": (0.88, 1.0)}).numbers["loss"]
    assert declared.interval == (0.88, 1.0)
    values = np.array([[0.9, 0.1], [1.0, 0.2]])
    _, low, high = mean_interval(values, bounds=(0.0, 1.0))
    assert (low >= 0).all() and (high <= 1).all()


@pytest.mark.parametrize(
    ("name", "values", "bounds"),
    [
        ("test_accuracy", [0.2, 1.0], (0.0, 1.0)),
        ("test_accuracy", [20.0, 97.0], None),
        ("deep_cosine", [-0.2, 0.4], (-1.0, 1.0)),
        ("clip_fraction", [0.0, None, "Infinity"], (0.0, 1.0)),
        ("account", [0.5], None),
        ("loss", [0.5], None),
        ("accuracy", [], None),
    ],
)
def test_bounds_follow_from_the_name_as_long_as_all_values_are_inside(
    name: str, values: list, bounds: tuple[float, float] | None
) -> None:
    assert bounds_of(name, values) == bounds
    assert bounds_of(name, values, {name: (-1.0, 100.0)}) == (-1.0, 100.0), "what is declared counts"


def test_bounds_that_the_values_contradict_are_none() -> None:
    """An interval cut at such a bound would not contain its own mean."""
    assert bounds_of("score", [0.5, 3.0], {"score": (0.0, 1.0)}) is None


def test_declared_bounds_survive_being_stored() -> None:
    declaration = Declaration("own", bounds={"accuracy": (0.0, 100.0), "norm": NOT_NEGATIVE})
    assert Declaration.from_json(declaration.to_json()) == declaration
    assert headline_number([99.0, 100.0], bounds=(0.0, 100.0)).high == 100.0


@pytest.mark.parametrize(
    ("study", "number"),
    [
        ("snapshot", "final_g_2_script"),
        ("calibration", "final_h_L"),
        ("clipping", "effective_dim_std"),
        ("depth", "fresh_loss_over_null"),
        ("rule-family", "growth_per_block"),
    ],
)
def test_no_norm_or_error_of_a_built_in_study_has_an_interval_below_zero(study: str, number: str) -> None:
    """On CIFAR-10 the gradient under random targets was said to lie in [-1.14e-09, 6.59e-09]."""
    values = [{number: value} for value in (1e-12, 1e-11, 1e-8)]
    assert arm_headlines(values, [number]).numbers[number].low < 0
    bounded = arm_headlines(values, [number], load_study(study).bounds).numbers[number]
    assert bounded.low == 0 and bounded.high > bounded.mean > 0
