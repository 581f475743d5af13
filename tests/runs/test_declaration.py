"""What a study declares: stored as data, settings by arm, and bounds of its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.declaration import (
    FILE,
    NOT_NEGATIVE,
    Arm,
    ArmSettings,
    Declaration,
    SeriesDisplay,
    bounds_of,
    read_declaration,
    study_directory,
    write_declaration,
)
from kymograph._runs.summaries import arm_headlines, headline_number
from kymograph._statistics.intervals import mean_interval
from tests.cli.command import write_coin

MINE = Declaration(
    "mine",
    "Why?",
    3,
    "0123456789abcdef",
    (Arm("a", "an arm", {"lr": 0.1}, {"epochs": 2}, True, "left"), Arm("b")),
    {"loss": "final loss"},
    (SeriesDisplay("loss", "Loss", "nats", True, "max", None, ("curves",), {"x": [1]}),),
    "epoch",
    ("data",),
    7,
)


def test_a_declaration_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_declaration(tmp_path, MINE)
    assert read_declaration(tmp_path) == MINE
    assert read_declaration(tmp_path / "absent") is None


def test_an_unchanged_declaration_is_not_written_again(tmp_path: Path) -> None:
    write_declaration(tmp_path, MINE)
    before = (tmp_path / FILE).stat().st_mtime_ns
    write_declaration(tmp_path, MINE)
    assert (tmp_path / FILE).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "harm",
    [
        {"name": 3}, {"arms": [{"name": []}]}, {"arms": 1}, {"series": [{"series": "x"}]}, {"version": "1"},
        {"headlines": []}, {"source": 5}, {"arms": [{"name": "a", "treatment": 3}]}, {"order": None},
    ],
)  # fmt: skip
def test_a_file_that_declares_no_study_is_one_sentence(tmp_path: Path, harm: dict) -> None:
    (tmp_path / FILE).write_text(json.dumps({"schema": 1, **MINE.to_json(), **harm}))
    with pytest.raises(KymographError, match="does not declare a study"):
        read_declaration(tmp_path)


def test_a_newer_file_asks_for_an_upgrade(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"schema": 9, **MINE.to_json()}))
    with pytest.raises(KymographError, match="schema 9, newer"):
        read_declaration(tmp_path)


def test_a_damaged_file_costs_no_runs(tmp_path: Path) -> None:
    """The advice used to be to delete the directory, which holds every run of the study."""
    (tmp_path / FILE).write_text("{")
    with pytest.raises(KymographError, match=r"study\.json is cut off or not JSON; restore it from a copy"):
        read_declaration(tmp_path)


def test_two_studies_do_not_share_a_directory(tmp_path: Path) -> None:
    """``a b`` and ``a-b`` are both stored in ``a-b``, and the second used to overwrite the first's declaration."""
    kymograph.record("a b", arm="x", seed=1, out=tmp_path).finish()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    words = "a-b is the directory of 'a b', and would be that of 'a-b' too; choose another name"
    with pytest.raises(KymographError, match=words):
        kymograph.record("a-b", arm="x", seed=1, out=tmp_path)
    with pytest.raises(KymographError, match=words):
        write_declaration(tmp_path / "a-b", Declaration("a-b"))  # two that start at once
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert study_directory(tmp_path, "a b") == tmp_path / "a-b"
    kymograph.record("a b", arm="x", seed=2, out=tmp_path).finish()


def test_a_sweep_does_not_take_the_directory_of_another_study(tmp_path: Path) -> None:
    study = write_coin(tmp_path)
    (tmp_path / "runs" / "coin").mkdir(parents=True)
    write_declaration(tmp_path / "runs" / "coin", Declaration(".coin"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KymographError, match=r"coin is the directory of '\.coin', and would be that of 'coin' too"):
        kymograph.run(str(study), seeds=[1], out=tmp_path / "runs", quiet=True)
    assert sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts) == before, (
        "nothing is logged"
    )


values = st.one_of(st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3), st.none())
configs = st.fixed_dictionaries({"lr": values, "task": values, "depth": values})


@given(st.dictionaries(st.text(min_size=1, max_size=4), configs, max_size=5))
def test_every_arm_gets_its_own_settings_back(by_arm: dict[str, dict]) -> None:
    packed = ArmSettings.pack(by_arm)
    again = ArmSettings.from_json(json.loads(json.dumps(packed.to_json())))
    for arm, settings in by_arm.items():
        assert packed.of(arm) == again.of(arm) == settings
    assert bool(packed) == bool(by_arm)


def test_what_arms_share_is_kept_once() -> None:
    packed = ArmSettings.pack({"a": {"lr": 1, "n": 2}, "b": {"lr": 1, "n": 3}, "c": {"lr": 1, "n": 3}})
    assert packed.shared == {"lr": 1, "n": 3} and packed.arms == {"a": {"n": 2}, "b": {}, "c": {}}


def test_an_unknown_arm_has_no_settings() -> None:
    assert ArmSettings.pack({"a": {"lr": 1}}).of("b") == {}


@pytest.mark.parametrize("content", [None, [], {}, {"shared": 1, "arms": {}}, {"shared": {}, "arms": {"a": 1}}])
def test_what_is_no_settings_is_refused(content: object) -> None:
    with pytest.raises(ValueError):
        ArmSettings.from_json(content)


def test_intervals_of_bounded_quantities_stay_inside_their_bounds() -> None:
    """The interval of accuracies 0.9, 0.99, 1 used to end at 1.1."""
    summaries = [{"test_accuracy": value, "loss": value} for value in (0.9, 0.99, 1.0)]
    numbers = arm_headlines(summaries, ["test_accuracy", "loss"])
    assert numbers["loss"].high > 1.0 and numbers["test_accuracy"].high == 1.0
    assert numbers["loss"].low == numbers["test_accuracy"].low, "an end that is inside stays where it is"
    declared = arm_headlines(summaries, ["loss"], {"loss": (0.88, 1.0)})["loss"]
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
