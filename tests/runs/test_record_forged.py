"""Records that are forged, checksums included: each is named and left out, and takes nothing down with it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from kymograph._claims.judge import judge
from kymograph._errors import KymographError
from kymograph._pictures.live.reading import read_state
from kymograph._pictures.report_page.page import write_report
from kymograph._runs.directory import Directory, read_directory, select
from kymograph._runs.formats import export
from kymograph._runs.listing import named_runs, run_table
from kymograph._runs.record import (
    ARRAYS,
    CHECKPOINT,
    CONFIG,
    STATUS,
    SUMMARY,
    RunResult,
    RunSeries,
    check_sizes,
    read_status,
)
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from tests.records import write_record


def spec(seed: int) -> RunSpec:
    return RunSpec("lab", "arm", seed, {"lr": 0.1}, 1)


def make(root: Path) -> Path:
    """Stores a sound run and another one, whose directory is returned."""
    series = {
        "loss": RunSeries(np.arange(3), np.arange(3.0)),
        "gain": RunSeries(np.arange(2), np.ones((2, 2)), ("a", "b")),
    }
    for seed in (1, 2):
        result = RunResult(series, {"final": 1.0}, checkpoint=b"network")
        write_record(root, spec(seed), result, {"code": "x", "notes": [], "log": []}, 0.1)
    return root / spec(2).directory


def reseal(directory: Path, name: str, content: bytes) -> None:
    """Replaces a file and its checksum."""
    (directory / name).write_bytes(content)
    status = json.loads((directory / STATUS).read_text())
    status["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (directory / STATUS).write_text(json.dumps(status))


def config(**changes: Any) -> Callable[[Path], None]:
    """Forges the identity of a run, id and directory included."""

    def forge(directory: Path) -> None:
        content = json.loads((directory / CONFIG).read_text()) | changes
        text = json.dumps(content)
        reseal(directory, CONFIG, text.encode())

    return forge


def provenance(value: Any) -> Callable[[Path], None]:
    return config(provenance=value)


def summary(value: Any) -> Callable[[Path], None]:
    return lambda directory: reseal(directory, SUMMARY, json.dumps({"schema": 1, "summary": value}).encode())


def status(**changes: Any) -> Callable[[Path], None]:
    def forge(directory: Path) -> None:
        content = json.loads((directory / STATUS).read_text())
        content |= {name: value for name, value in changes.items() if value is not None}
        for name in [name for name, value in changes.items() if value is None]:
            del content[name]
        (directory / STATUS).write_text(json.dumps(content))

    return forge


def arrays(layout: Any, **tensors: np.ndarray) -> Callable[[Path], None]:
    content = save({"step/0": np.arange(3, dtype=np.int32), "value/loss": np.zeros(3), **tensors},
                   metadata={"kymograph": json.dumps({"schema": 1, "series": layout})})  # fmt: skip
    return lambda directory: reseal(directory, ARRAYS, content)


def raw(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda directory: reseal(directory, name, content)


def pipe(name: str) -> Callable[[Path], None]:
    def forge(directory: Path) -> None:
        (directory / name).unlink()
        os.mkfifo(directory / name)

    return forge


def link(name: str) -> Callable[[Path], None]:
    def forge(directory: Path) -> None:
        outside = directory.parents[1] / f"outside-{name}"
        (directory / name).rename(outside)
        (directory / name).symlink_to(outside)

    return forge


def sparse(name: str) -> Callable[[Path], None]:
    return lambda directory: os.truncate(directory / name, 2**40)


DEEP = b'{"schema": 1, "summary": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
FORGERIES = {
    "a seed that is a path": config(seed="../../../escape"),
    "a seed that is true": config(seed=True),
    "a seed beyond 64 bits": config(seed=2**70),
    "a seed of 5,000 digits": raw(CONFIG, b'{"schema": 1, "seed": ' + b"9" * 5000 + b"}"),
    "a version that is a text": config(version="1"),
    "an arm with an escape": config(arm="\x1b[2Jarm"),
    "an arm that is half a character": config(arm="\ud800"),
    "an arm that is a list": config(arm=["arm"]),
    "a study of two lines": config(study="lab\nother"),
    "a config that is a list": config(config=[1]),
    "a number that is too large": raw(CONFIG, b'{"schema": 1, "config": {"lr": 1e999}}'),
    "a key that is there twice": raw(CONFIG, b'{"schema": 1, "seed": 1, "seed": 2}'),
    "provenance that is a list": provenance([1]),
    "versions that are a text": provenance({"versions": "x"}),
    "notes that are a number": provenance({"notes": 3}),
    "notes that are numbers": provenance({"notes": [3]}),
    "a log of objects": provenance({"log": [{}]}),
    "threads in words": provenance({"threads": "many"}),
    "a summary that is a list": summary([1]),
    "a summary of lists": summary({"final": [1]}),
    "a summary of objects": summary({"final": {}}),
    "no summary": raw(SUMMARY, b'{"schema": 1}'),
    "a summary of half a character": raw(SUMMARY, b'{"schema": 1, "summary": {"a": "\\ud800"}}'),
    "nesting": raw(SUMMARY, DEEP),
    "a schema that is true": raw(SUMMARY, b'{"schema": true, "summary": {}}'),
    "status without files": status(files=None),
    "status with no checksums": status(files={}),
    "status with numbers for files": status(files={CONFIG: 1, ARRAYS: 1, SUMMARY: 1}),
    "a reason that is a list": status(reason=[1]),
    "seconds in words": status(seconds="long"),
    "seconds below 0": status(seconds=-1),
    "a status that is a list": status(status=["finished"]),
    "series that are a list": arrays([1]),
    "a series without steps": arrays({"loss": {"sites": None}}),
    "sites that are numbers": arrays({"loss": {"grid": "0", "sites": [1, 2]}}),
    "a site twice": arrays({"loss": {"grid": "0", "sites": 2 * ["a"]}}, **{"value/loss": np.ones((3, 2))}),
    "a series that is too short": arrays({"loss": {"grid": "0", "sites": None}}, **{"value/loss": np.zeros(2)}),
    "steps that are not finite": arrays(
        {"loss": {"grid": "0", "sites": None}}, **{"step/0": np.array([0.0, np.nan, 1.0])}
    ),
    "steps of half precision": arrays({"loss": {"grid": "0", "sites": None}}, **{"step/0": np.zeros(3, np.float16)}),
    "numbers of another type": arrays({"loss": {"grid": "0", "sites": None}}, **{"value/loss": np.zeros(3, np.int16)}),
    "arrays that are noise": raw(ARRAYS, b"\xff" * 64),
    "a pipe for the series": pipe(ARRAYS),
    "a pipe for the status": pipe(STATUS),
    "a sparse file for the series": sparse(ARRAYS),
    "a sparse file for the status": sparse(STATUS),
    "a link for the summary": link(SUMMARY),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_record_is_named_and_left_out(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture) -> None:
    root = tmp_path / "runs"
    bad = make(root)
    FORGERIES[kind](bad)
    archive = Directory(root).checked()
    assert [run.seed for run in archive.store] == [1], "the sound run is there"
    (damaged,) = archive.damaged
    assert bad.name in damaged.reason and "\n" not in damaged.reason
    assert run_table(named_runs(Directory(root).checked(series=False)), archive.declarations)
    assert write_report(read_directory(root), judge(read_directory(root)), tmp_path / "report.html").stat().st_size
    live = read_state(root, 0.0)
    assert [(study.counts.finished, study.counts.damaged) for study in live.studies] == [(1, 1)]
    capsys.readouterr()
    store = select(root)
    assert [run.seed for run in store] == [1] and bad.name in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    for format in ("json", "csv", "tensorboard"):
        export(store, format, tmp_path / "out" / format)
    assert not list(tmp_path.rglob("*escape*"))


def test_a_sound_record_is_read_as_it_was(tmp_path: Path) -> None:
    run = StoredRun(make(tmp_path))
    run.check()
    run.check_network()
    assert run.series["gain"].sites == ("a", "b") and run.summary == {"final": 1.0} and run.notes == ()


@pytest.mark.parametrize("harm", ["deleted", "one bit"])
def test_the_network_that_a_run_kept_is_part_of_its_record(tmp_path: Path, harm: str) -> None:
    directory = make(tmp_path)
    run = StoredRun(directory)
    assert read_state(tmp_path, 0.0).studies[0].counts.finished == 2
    if harm == "deleted":
        (directory / CHECKPOINT).unlink()
        assert read_state(tmp_path, 0.0).studies[0].counts.finished == 1
        with pytest.raises(KymographError, match=r"checkpoint.safetensors is missing"):
            check_sizes(directory, read_status(directory))
    else:
        (directory / CHECKPOINT).write_bytes(b"netwosk")
        assert read_state(tmp_path, 0.0).studies[0].counts.finished == 2, "a watcher looks at sizes"
    with pytest.raises(KymographError, match=r"checkpoint.safetensors"):
        run.check_network()
