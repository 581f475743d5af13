from __future__ import annotations

import json
from pathlib import Path

import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.runs.declaration import (
    FILE,
    Arm,
    Declaration,
    SeriesDisplay,
    read_declaration,
    study_directory,
    write_declaration,
)
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


@pytest.mark.parametrize("study", kymograph.list_studies(), ids=lambda study: study.name)
def test_every_registered_study_declares_itself_as_data(tmp_path: Path, study: kymograph.Study) -> None:
    write_declaration(tmp_path, study.declaration())
    back = read_declaration(tmp_path)
    assert back is not None and back.to_json() == study.declaration().to_json()
    assert back.question and back.headlines and back.series and back.source is None
    assert back.declared_fields.keys() == {arm.name for arm in study.arms()}


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
