from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph.claims.judge import judge
from kymograph.pictures.report.page import write_report
from kymograph.runs.archive import Archive
from kymograph.runs.store import Store
from tests.conftest import QUICK_DEPTH


@pytest.fixture
def directory(tmp_path: Path, depth_store: Store) -> Path:
    """A copy of stored runs of `depth`."""
    assert depth_store.root is not None
    shutil.copytree(depth_store.root, tmp_path / "runs")
    return tmp_path / "runs"


def test_an_archive_holds_what_ended_what_is_damaged_what_was_planned_and_what_is_declared(directory: Path) -> None:
    whole = Archive.open(directory)
    assert len(whole.store) == len(whole.planned) == 15 and not whole.damaged
    assert whole.declarations["depth"].question == "Do residual connections rescue deep plain networks?"
    first, second, *_ = whole.store
    (first.directory / "config.json").write_text("{")
    (second.directory / "arrays.safetensors").write_bytes(b"short")
    opened = Archive.open(directory)
    assert [(run.arm, run.seed, run.id) for run in opened.damaged] == [(first.arm, first.seed, first.id)]
    checked = opened.checked()
    assert {run.id for run in checked.damaged} == {first.id, second.id}
    assert len(checked.store) == 13 and checked.studies == ["depth"]
    assert all(run.config is not None and "delete" in run.failure for run in checked.damaged), "the plan knows them"


def test_judging_and_reporting_read_every_file_once(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`report` used to read and hash every file twice: once to show the runs, once to judge them."""
    reads: Counter[Path] = Counter()
    original = os.open

    def counted(path: str | Path, *how: Any, **options: Any) -> int:
        reads[Path(path)] += 1
        return original(path, *how, **options)

    monkeypatch.setattr(os, "open", counted)
    archive = Archive.open(directory).checked()
    write_report(archive, judge(archive), tmp_path / "report.html")
    records = {path: count for path, count in reads.items() if path.parent.parent.name == "depth"}
    assert len(records) == 15 * 4 and set(records.values()) == {1}


def test_an_old_directory_without_declarations_is_judged_as_before(directory: Path) -> None:
    def rows() -> list[dict]:
        changing = dict.fromkeys(("registration", "registered", "family_size", "notes"))
        return [{**verdict.row(), **changing} for verdict in judge(directory)]

    before = rows()
    (directory / "depth" / "study.json").unlink()
    shutil.rmtree(directory / "log")
    for config in directory.glob("*/*/config.json"):  # runs from before the log say nothing of it
        _rewrite(config)
    assert rows() == before
    assert {verdict.registration for verdict in judge(directory)} == {"not logged, post hoc"}
    assert len(kymograph.Store.open(directory).current()) == 15


def _rewrite(config: Path) -> None:
    """Removes the heads of the log from a record, whose checksums are made anew."""
    content = json.loads(config.read_text())
    del content["provenance"]["log"]
    config.write_text(json.dumps(content))
    status = json.loads((config.parent / "status.json").read_text())
    data = config.read_bytes()
    status["files"]["config.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (config.parent / "status.json").write_text(json.dumps(status))


def test_runs_of_an_older_version_are_superseded(directory: Path) -> None:
    from kymograph.runs.record import RunResult, write_record
    from kymograph.runs.spec import RunSpec

    old = RunSpec("depth", "plain", 42, {**QUICK_DEPTH, "task": "identity"}, 0)
    write_record(directory, old, RunResult({}, {}), {}, 0.0)
    store = kymograph.Store.open(directory)
    assert len(store) == 16 and len(store.current()) == 15
