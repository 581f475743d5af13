"""When a run has diverged, at which step, and where that is said."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._runs import record, thin_run
from kymograph._runs.directory import Directory
from kymograph._runs.divergence import Divergence, diverged_text, find_divergence
from kymograph._runs.formats.data_files import export_json
from kymograph._runs.listing import choose_runs, named_runs, run_details, run_table, run_text
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tables import summary_rows
from kymograph._runs.thin_run import ThinRun
from kymograph._sharing.bundle import write_bundle
from tests.cli.command import call
from tests.records import write_record

NAN, INF = math.nan, math.inf
SPEC = RunSpec("own", "wild", 3, {"lr": 9.0}, 1)


def series(*values: Any, first: int = 0, every: int = 1, sites: tuple[str, ...] | None = None) -> RunSeries:
    return RunSeries(first + every * np.arange(len(values)), np.array(values, dtype=np.float64), sites)


def found(summary: dict[str, Any], **curves: RunSeries) -> Divergence | None:
    return find_divergence(summary, lambda: curves)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ((1.0, 0.5, NAN, NAN), 2),
        ((1.0, 0.5, INF, NAN), 2),
        ((1.0, 0.5, 0.2, NAN), 3),
        ((NAN, 1.0, NAN), 2),  # nothing is trained before the first step
        ((1.0, INF, 0.5, 0.4), None),  # it recovered
        ((1.0, NAN, 0.5, NAN), None),  # NaN: not measured
        ((1.0, NAN, 0.5, INF, NAN), 3),  # an infinity was measured
        ((NAN, NAN, NAN), None),  # never measured
        ((1.0, 0.5), None),
        ((), None),
    ],
)
def test_a_loss_that_is_never_finite_again_diverged_where_it_first_was_not(
    values: tuple[float, ...], step: int | None
) -> None:
    expected = None if step is None else Divergence(step)
    for name in ("loss", "train/Loss", "val_nll"):
        assert found({}, **{name: series(*values)}) == expected
    assert found({}, accuracy=series(*values), cosine=series(*values)) is None, "only a loss decides"


def test_the_study_has_the_last_word() -> None:
    lost = series(1.0, 2.0, NAN, NAN, every=100)
    assert found({"finite": True}, loss=lost) is None
    assert found({"finite": False}, loss=lost) == Divergence(200)
    assert found({"finite": False}, loss=series(1.0, INF, 0.5)) == Divergence(1), (
        "it came back, and overflowed all the same"
    )
    assert found({"finite": False}, loss=series(INF, NAN, first=7)) == Divergence(7), "never finite"
    assert found({"finite": False}, loss=series(NAN, 1.0, NAN)) == Divergence(2)
    assert found({"finite": False}, norm=series(1.0, 2.0, INF), other=series(1.0, NAN, 1.0)) == Divergence(2)
    assert found({"finite": False}, loss=series(1.0)) == found({"finite": False}) == Divergence(None)


def test_a_run_without_a_losing_series_diverged_if_a_loss_of_its_summary_is_infinite() -> None:
    assert found({"final_loss": INF}) == found({"final_loss": "Infinity"}) == Divergence(None)
    assert found({"ratio": INF}) is found({"final_loss": None}) is found({"loss": NAN}) is None
    assert found({"loss": INF}, loss=series(1.0, INF)) == Divergence(1)


def test_each_site_is_a_series_of_its_own_and_steps_are_as_given() -> None:
    by_site = series((1.0, 1.0), (1.0, NAN), (NAN, NAN), sites=("a", "b"))
    assert found({}, loss=by_site) == Divergence(1)
    assert found({}, loss=series((1.0, NAN), (NAN, 1.0), (1.0, 1.0), sites=("a", "b"))) is None
    epochs = RunSeries(np.array([0.25, 0.5, 0.75]), np.array([1.0, NAN, NAN]))
    assert str(found({}, loss=epochs)) == "diverged at step 0.5"
    huge = RunSeries(np.array([0, 3 * 10**9]), np.array([1.0, NAN]))
    assert str(found({}, loss=huge)) == "diverged at step 3000000000"


def test_several_runs_in_words() -> None:
    assert diverged_text([]) == ""
    assert diverged_text([Divergence(5), Divergence(5)]) == "2 diverged at step 5"
    assert diverged_text([Divergence(5), Divergence(None)]) == "2 diverged, 1 of them at step 5"


def write(root: Path, spec: RunSpec = SPEC, at: int | None = 212, **summary: Any) -> StoredRun:
    """Stores a run of 400 steps whose loss is NaN from step ``at`` on."""
    loss = np.linspace(1, 2, 400)
    loss[400 if at is None else at :] = NAN
    result = RunResult({"loss": RunSeries(np.arange(400), loss)}, {"final_loss": loss[-1], **summary})
    write_record(root, spec, result, {}, 0.1)
    return StoredRun(root / spec.directory)


def age(run: StoredRun) -> None:
    """Makes the record one of an earlier version, which did not say whether a run diverged."""
    path = run.directory / record.SUMMARY
    content = json.loads(path.read_text())
    del content["diverged"]
    reseal(run, json.dumps(content).encode())


def reseal(run: StoredRun, summary: bytes) -> None:
    """Replaces the summary of a record, with its checksum."""
    (run.directory / record.SUMMARY).write_bytes(summary)
    status = json.loads((run.directory / record.STATUS).read_text())
    status["files"][record.SUMMARY] = {"bytes": len(summary), "sha256": hashlib.sha256(summary).hexdigest()}
    (run.directory / record.STATUS).write_text(json.dumps(status))


@pytest.mark.parametrize("old", [False, True])
def test_a_diverged_run_says_so_wherever_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture, old: bool) -> None:
    """It used to be a finished run with an empty cell."""
    run = write(tmp_path)
    fine = write(tmp_path, RunSpec("own", "calm", 3, {"lr": 0.1}, 1), at=None)
    if old:
        age(run)
        age(fine)
    run = StoredRun(run.directory)
    assert (run.status, run.ending, run.has_results) == ("diverged", "diverged at step 212", True)
    assert repr(run) == "<run own wild seed 3: diverged at step 212>" and "diverged at step 212" in run._repr_html_()
    store = Store.open(tmp_path)
    assert len(store.finished) == 2 and not store.failed, "it has results, and counts"
    directory = Directory(tmp_path).checked(series=False)
    runs = named_runs(directory)
    (chosen,) = choose_runs(runs, statuses=["diverged"])
    assert chosen.arm == "wild" and run_text(chosen).startswith("own/wild/s3: diverged at step 212 in")
    table = run_table(runs, {})
    assert "own: 1 finished, 1 diverged" in table and "wild/s3  diverged at step 212" in table
    details = [run_details(one) for one in runs]
    assert [(one["status"], one["diverged_at"]) for one in details] == [("finished", None), ("diverged", 212)]
    assert call("show", "--dir", str(tmp_path), "--status", "diverged", "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["diverged_at"]) == ("diverged", 212)
    assert [(row["status"], row["diverged_at"]) for row in summary_rows(store.runs)] == [
        ("finished", None), ("diverged", 212),
    ]  # fmt: skip
    export_json(store, tmp_path / "runs.json")
    exported = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [(one["status"], one.get("diverged_at")) for one in exported] == [("finished", None), ("diverged", 212)]


def test_a_table_of_runs_that_stayed_finite_has_no_column_of_steps(tmp_path: Path) -> None:
    assert "diverged_at" not in summary_rows([write(tmp_path, at=None)])[0]


def test_a_list_of_runs_reads_no_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    write(tmp_path, RunSpec("own", "calm", 3, {"lr": 0.1}, 1), at=None)

    def refuse(*_: Any) -> Any:
        raise AssertionError("the series were read")

    monkeypatch.setattr(record, "unpack_arrays", refuse)
    assert [run.status for run in named_runs(Directory(tmp_path).checked(series=False))] == ["finished", "diverged"]


def test_the_record_of_an_earlier_study_that_says_finite_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write(tmp_path, at=None, finite=True)
    age(run)
    monkeypatch.setattr(record, "unpack_arrays", lambda *_: pytest.fail("the series were read"))
    assert StoredRun(run.directory).status == "finished"


def test_an_earlier_record_whose_series_are_damaged_is_listed_as_damaged(tmp_path: Path) -> None:
    run = write(tmp_path)
    age(run)
    (run.directory / record.ARRAYS).write_bytes(b"short")
    (lost,) = named_runs(Directory(tmp_path).checked(series=False))
    assert lost.status == "damaged" and lost.reason is not None and record.ARRAYS in lost.reason
    assert repr(StoredRun(run.directory)).endswith("damaged>")


@pytest.mark.parametrize("forged", [5, [], {}, {"step": "x"}, {"step": True}, {"step": 1e999}, {"step": 1, "at": 2}])
def test_a_forged_step_is_named(tmp_path: Path, forged: Any) -> None:
    run = write(tmp_path)
    content = json.loads((run.directory / record.SUMMARY).read_text())
    reseal(run, json.dumps({**content, "diverged": forged}).replace("Infinity", "1e999").encode())
    with pytest.raises(KymographError, match=r"does not say at which step|not JSON"):
        _ = StoredRun(run.directory).status


def test_a_step_of_any_size_is_read() -> None:
    assert Divergence.of({"step": 10**400}) == Divergence(10**400) and Divergence.of({"step": None}) == Divergence(None)


def test_a_thin_run_knows_its_step_if_its_record_states_it(tmp_path: Path) -> None:
    new = write(tmp_path / "new")
    old, declared = write(tmp_path / "old"), write(tmp_path / "declared", finite=False)
    age(old)
    age(declared)
    thin = []
    for run in (new, old, declared):
        (run.directory / record.ARRAYS).unlink()
        (run.directory / thin_run.ARRAYS).write_bytes(record.pack_record(SPEC, RunResult({}, {}), {})[record.ARRAYS])
        document = {"schema": 1, "left_out": ["loss"], "reductions": []}
        (run.directory / thin_run.DOCUMENT).write_text(json.dumps(document))
        thin.append(ThinRun(run.directory))
    assert [run.ending for run in thin] == ["diverged at step 212", "finished", "diverged"], "unknown, never invented"


def test_the_users_own_loop(tmp_path: Path) -> None:
    with kymograph.record("own", arm="a", seed=1, out=tmp_path) as run:
        for step in run.steps(30):
            run.log(loss=1.0 if step < 12 else NAN)
    (stored,) = Store.open(tmp_path)
    assert stored.ending == "diverged at step 12"


@pytest.mark.slow
def test_a_bundle_of_a_diverged_run_can_be_written_and_read(tmp_path: Path) -> None:
    with kymograph.record("own", arm="a", seed=1, out=tmp_path / "runs") as run:
        for step in run.steps(300):
            run.log(loss=1.0 if step < 212 else NAN)
    write_bundle(tmp_path / "runs", tmp_path / "b.zip", {}, thin=True)
    assert call("verify", str(tmp_path / "b.zip")) == 0
