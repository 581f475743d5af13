from __future__ import annotations

import numpy as np
import pytest

from kymograph.runs.bounds import bounds_of
from kymograph.runs.declaration import Declaration
from kymograph.runs.headlines import arm_headlines, headline_number
from kymograph.statistics.intervals import mean_interval


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
    declaration = Declaration("own", bounds={"accuracy": (0.0, 100.0)})
    assert Declaration.from_json(declaration.to_json()) == declaration
    assert headline_number([99.0, 100.0], bounds=(0.0, 100.0)).high == 100.0
