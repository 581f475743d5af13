"""A directory of runs, read once, and the runs selected from it."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph._claims.judge import judge
from kymograph._errors import KymographError
from kymograph._pictures.report_page.page import write_report
from kymograph._runs.declaration import write_declaration
from kymograph._runs.directory import Directory, read_directory, select
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from tests.records import write_record
from tests.studies import tossing
from tests.studies.walks import Walks


def test_an_archive_holds_what_ended_what_is_damaged_what_was_planned_and_what_is_declared(
    walk_directory: Path,
) -> None:
    whole = Directory(walk_directory)
    assert len(whole.store) == len(whole.planned) == 12 and not whole.damaged
    assert whole.declarations["walks"].question == "How far do walks go?"
    first, second, *_ = whole.store
    (first.directory / "config.json").write_text("{")
    (second.directory / "arrays.safetensors").write_bytes(b"short")
    opened = Directory(walk_directory)
    assert [(run.arm, run.seed, run.id) for run in opened.damaged] == [(first.arm, first.seed, first.id)]
    checked = opened.checked()
    assert {run.id for run in checked.damaged} == {first.id, second.id}
    assert len(checked.store) == 10 and checked.studies == ["walks"]
    assert all(run.config is not None and "delete" in run.failure for run in checked.damaged), "the plan knows them"


def test_judging_and_reporting_read_every_file_once(
    walk_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`report` used to read and hash every file twice: once to show the runs, once to judge them."""
    reads: Counter[Path] = Counter()
    original = os.open

    def counted(path: str | Path, *how: Any, **options: Any) -> int:
        reads[Path(path)] += 1
        return original(path, *how, **options)

    monkeypatch.setattr(os, "open", counted)
    archive = Directory(walk_directory).checked()
    write_report(archive, judge(archive), tmp_path / "report.html")
    records = {path: count for path, count in reads.items() if path.parent.parent.name == "walks"}
    assert len(records) == 12 * 4 and set(records.values()) == {1}


def test_runs_of_an_older_version_are_superseded(walk_directory: Path) -> None:
    write_record(walk_directory, RunSpec("walks", "extreme/clip", 42, {}, 0), RunResult({}, {}), {}, 0.0)
    store = kymograph.Store.open(walk_directory)
    assert len(store) == 13 and len(store.current()) == 12


@pytest.fixture
def two_studies(walk_directory: Path) -> Path:
    """A directory with the runs of two studies, one run of `tossing` damaged and one of `walks` missing."""
    kymograph.run(tossing.REFERENCE, seeds=[1, 2], out=walk_directory, quiet=True, engine="serial")
    damaged = next(iter(sorted((walk_directory / "tossing").glob("*/summary.json"))))
    damaged.write_text("{}")
    shutil.rmtree(next(iter(sorted((walk_directory / "walks").glob("*-s42-*")))))
    return walk_directory


def test_runs_are_selected_by_study_arm_and_setting(two_studies: Path) -> None:
    whole = select(two_studies)
    assert set(whole.studies) == {"tossing", "walks"}
    assert select(two_studies, "walks").studies == ("walks",)
    part = select(two_studies, arms=["extreme/*", "moderate/clip"])
    assert set(part.arms) == {"extreme/no_clip", "extreme/clip", "moderate/clip"}
    assert select(two_studies, "tossing", where={"faces": 2}).studies == ("tossing",)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"study": "tosing"}, "has no runs of 'tosing'; did you mean 'tossing'"),
        ({"arms": ["extreme/clipp"]}, "has no arm 'extreme/clipp'; did you mean 'extreme/clip'"),
        ({"where": {"lrr": 1}}, "no run has a field 'lrr'"),
    ],
)
def test_what_is_not_there_is_named(two_studies: Path, choice: dict, message: str) -> None:
    with pytest.raises(KymographError, match=message):
        select(two_studies, **choice)


def test_the_archive_of_one_study_holds_its_runs_its_damaged_runs_and_its_plan_only(two_studies: Path) -> None:
    whole, tosses, walks = (read_directory(two_studies, name) for name in (None, "tossing", "walks"))
    assert set(tosses.studies) == {"tossing"} and set(walks.studies) == {"walks"}
    assert len(tosses.damaged) == 1 and "summary.json" in tosses.damaged[0].reason and not walks.damaged
    assert len(walks.planned) == len(walks.store) + 1, "a run that is missing is still planned"
    assert len(whole.store) == len(tosses.store) + len(walks.store)
    assert len(whole.planned) == len(tosses.planned) + len(walks.planned)
    with pytest.raises(KymographError, match="has no runs of 'walk'; did you mean 'walks'"):
        read_directory(two_studies, "walk")


def test_runs_of_earlier_code_are_left_out_unless_their_version_is_named(
    walk_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    version = Walks.version
    monkeypatch.setattr(Walks, "version", version + 1)
    write_declaration(walk_directory / "walks", Walks().declaration())
    with pytest.raises(KymographError, match="all 12 runs asked for are superseded by newer code"):
        select(walk_directory)
    assert len(select(walk_directory, where={"version": version})) == 12
    assert not capsys.readouterr().err
