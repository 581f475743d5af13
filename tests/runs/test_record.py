from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kymograph._errors import KymographError
from kymograph._io import writing as files
from kymograph._runs import record
from kymograph._runs import record as typed_record
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec, canonical_json, digest, slug
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from tests.records import write_record

SPEC = RunSpec("clipping", "extreme/clip", 42, {"lr": 0.1, "epochs": 2}, 1)


def result(value: float = 1.0) -> RunResult:
    steps = np.arange(3)
    return RunResult(
        {
            "loss": RunSeries(steps, np.array([value, np.nan, np.inf], np.float32)),
            "accuracy": RunSeries(steps[:2], np.ones((2, 2)), ("a", "b")),
        },
        {"final": value, "missing": np.nan, "huge": np.inf},
    )


def stored(root: Path) -> Path:
    write_record(root, SPEC, result(), {"code": "x"}, 0.5)
    return root / SPEC.directory


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    run = StoredRun(stored(tmp_path))
    assert (run.study, run.arm, run.seed, run.status) == ("clipping", "extreme/clip", 42, "diverged")
    np.testing.assert_array_equal(run.series["loss"].value, result().series["loss"].value)
    assert run.series["loss"].value.dtype == np.float32
    assert run.series["accuracy"].sites == ("a", "b")
    assert run.summary == {"final": 1.0, "missing": None, "huge": np.inf}
    assert record.is_finished(tmp_path, SPEC)


@settings(max_examples=25, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.uint8, np.int32]),
        hnp.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=20),
    )
)
def test_any_array_survives_packing(tmp_path_factory: pytest.TempPathFactory, value: np.ndarray) -> None:
    series = {"x": RunSeries(np.arange(len(value)), value)}
    path = tmp_path_factory.mktemp("pack") / "arrays.safetensors"
    path.write_bytes(record._pack(series))
    back = typed_record.unpack_arrays(path.read_bytes(), path)["x"]
    assert back.value.dtype == value.dtype
    np.testing.assert_array_equal(back.value, value)


def test_the_id_depends_on_every_part_and_not_on_the_order_of_fields() -> None:
    other = RunSpec("clipping", "extreme/clip", 42, {"epochs": 2, "lr": 0.1}, 1)
    assert other.id == SPEC.id
    for changed in (
        RunSpec("depth", "extreme/clip", 42, SPEC.config, 1),
        RunSpec("clipping", "extreme", 42, SPEC.config, 1),
        RunSpec("clipping", "extreme/clip", 43, SPEC.config, 1),
        RunSpec("clipping", "extreme/clip", 42, {"lr": 0.2, "epochs": 2}, 1),
        RunSpec("clipping", "extreme/clip", 42, SPEC.config, 2),
    ):
        assert changed.id != SPEC.id


@given(st.text(max_size=30))
def test_a_slug_is_one_plain_file_name(text: str) -> None:
    name = slug(text)
    assert name and "/" not in name and not name.startswith(".") and name.isascii()


def test_canonical_json_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(ValueError):
        canonical_json({"x": float("nan")})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_a_run_without_status_is_not_finished(tmp_path: Path) -> None:
    directory = stored(tmp_path)
    (directory / record.STATUS).unlink()
    assert not record.is_finished(tmp_path, SPEC)


@pytest.mark.parametrize("name", [record.CONFIG, record.ARRAYS, record.SUMMARY])
@pytest.mark.parametrize("harm", ["cut", "edit", "remove"])
def test_a_damaged_file_is_named_in_one_sentence(tmp_path: Path, name: str, harm: str) -> None:
    directory = stored(tmp_path)
    path = directory / name
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "edit":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    else:
        path.unlink()
    with pytest.raises(KymographError) as error:
        run = StoredRun(directory)
        _ = run.series, run.summary
    assert name in str(error.value) and "\n" not in str(error.value)
    if harm != "edit":  # planning looks at sizes only; reading looks at checksums
        with pytest.raises(KymographError, match=name):
            record.is_finished(tmp_path, SPEC)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 1}', b'{"schema": "x", "status": "finished"}'])
def test_a_nonsense_status_file_is_an_error_and_not_a_finished_run(tmp_path: Path, content: bytes) -> None:
    directory = stored(tmp_path)
    (directory / record.STATUS).write_bytes(content)
    with pytest.raises(KymographError):
        record.is_finished(tmp_path, SPEC)
    with pytest.raises(KymographError):
        Store.open(tmp_path)


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    directory = stored(tmp_path)
    status = json.loads((directory / record.STATUS).read_text())
    (directory / record.STATUS).write_text(json.dumps({**status, "schema": files.SCHEMA + 1}))
    with pytest.raises(KymographError, match=r"newer.*upgrade"):
        record.is_finished(tmp_path, SPEC)


def test_a_status_cannot_point_outside_its_directory(tmp_path: Path) -> None:
    directory = stored(tmp_path)
    status = json.loads((directory / record.STATUS).read_text())
    status["files"]["../../secret"] = {"bytes": 1, "sha256": "0"}
    (directory / record.STATUS).write_text(json.dumps(status))
    with pytest.raises(KymographError, match="unknown files"):
        record.read_status(directory)


def test_an_edited_configuration_does_not_match_its_id(tmp_path: Path) -> None:
    directory = stored(tmp_path)
    config = json.loads((directory / record.CONFIG).read_text())
    config["config"]["lr"] = 0.2
    text = json.dumps(config).encode()
    (directory / record.CONFIG).write_bytes(text)
    status = json.loads((directory / record.STATUS).read_text())
    status["files"][record.CONFIG] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    (directory / record.STATUS).write_text(json.dumps(status))
    with pytest.raises(KymographError, match="edited"):
        StoredRun(directory)


@pytest.mark.parametrize("before", ["nothing", "a failure", "a finished run"])
@pytest.mark.parametrize("stop_after", range(7))
def test_a_crash_between_any_two_writes_leaves_what_was_there_or_the_whole_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int, before: str
) -> None:
    if before == "a failure":
        record.write_failure(tmp_path, SPEC, "RuntimeError: x", {})
    elif before == "a finished run":
        stored(tmp_path)
    calls = 0
    real_rename, real_write = os.rename, Path.write_bytes

    def crash_or(do, *arguments):
        nonlocal calls
        calls += 1
        if calls > stop_after:
            raise KeyboardInterrupt
        return do(*arguments)

    monkeypatch.setattr(os, "rename", lambda *a: crash_or(real_rename, *a))
    monkeypatch.setattr(Path, "write_bytes", lambda *a: crash_or(real_write, *a))
    monkeypatch.setattr(shutil, "rmtree", lambda *a, **k: None)  # a killed process does not tidy up
    needed = 5 if before == "nothing" else 6  # four files, and a rename or two
    if stop_after >= needed:
        stored(tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            stored(tmp_path)
    monkeypatch.undo()
    if stop_after >= needed:
        assert record.is_finished(tmp_path, SPEC)
    elif stop_after < 5 and before != "nothing":
        assert record.read_status(tmp_path / SPEC.directory).status == (
            "failed" if before == "a failure" else "finished"
        )
    else:
        assert not record.is_finished(tmp_path, SPEC)
    stored(tmp_path)
    assert StoredRun(tmp_path / SPEC.directory).summary["final"] == 1.0
    assert len(Store.open(tmp_path)) == 1, "what a crash left behind is no run"


def test_a_finished_run_is_not_overwritten_by_a_failure(tmp_path: Path) -> None:
    stored(tmp_path)
    record.write_failure(tmp_path, SPEC, "RuntimeError: a rival process failed", {})
    assert record.is_finished(tmp_path, SPEC)


def test_a_finished_status_that_lists_no_files_is_an_error(tmp_path: Path) -> None:
    directory = stored(tmp_path)
    status = json.loads((directory / record.STATUS).read_text())
    (directory / record.STATUS).write_text(json.dumps({**status, "files": {}}))
    with pytest.raises(KymographError, match=r"has no checksum of config\.json"):
        record.is_finished(tmp_path, SPEC)


def test_numbers_of_a_kind_that_is_not_stored_are_refused(tmp_path: Path) -> None:
    half = RunResult({"x": RunSeries(np.arange(2), np.ones(2, np.float16))}, {})
    with pytest.raises(KymographError, match="float16"):
        write_record(tmp_path, SPEC, half, {}, 0.0)


def test_a_failure_keeps_its_reason_and_is_not_finished(tmp_path: Path) -> None:
    record.write_failure(tmp_path, SPEC, "RuntimeError: no memory", {})
    run = StoredRun(tmp_path / SPEC.directory)
    assert (run.status, run.reason, dict(run.series)) == ("failed", "RuntimeError: no memory", {})
    assert not record.is_finished(tmp_path, SPEC)


def test_a_series_must_fit_its_labels() -> None:
    with pytest.raises(KymographError, match="does not fit"):
        RunSeries(np.arange(3), np.zeros(4))
