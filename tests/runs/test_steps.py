"""Steps: as they were given, in every view of a run."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._experiments.logged_series import LoggedSeries
from kymograph._pictures.live.state import trace_series
from kymograph._runs import record
from kymograph._runs.formats import export
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.steps import aligned, checked_step
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._sharing.bundle import opened_runs, write_bundle
from kymograph._sharing.verify import verify
from tests.cli.command import call
from tests.records import write_record

WAYS = {
    "beyond int32": [0, 3_000_000_000, 3_000_000_001, 6_000_000_000],
    "fractions": [0.25, 0.5, 0.75, 1.0],
    "repeated": [0, 1, 1, 2],
    "one step only": [7, 7, 7, 7],
    "decreasing": [0, 5, 3, 5],
    "large": [2**62, 2**62 + 1, 2**62 + 2, 2**62 + 3],
    "tiny": [5e-324, 1e-300, 2e-300, 1e-10],
    "huge": [-1e308, 0.0, 1e300, 1.7e308],
}
NOTES = {
    "repeated": ["the steps of loss, layers repeat; every value is kept, in the order of logging"],
    "one step only": ["the steps of loss, layers repeat; every value is kept, in the order of logging"],
    "decreasing": ["the steps of loss, layers decrease; every value is kept, in the order of logging"],
}


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def recorded(out: Path, steps: list[Any]) -> None:
    for arm in ("a", "b"):
        for seed in (1, 2):
            with ky.record("mine", arm=arm, seed=seed, out=out) as run:
                for index, step in enumerate(steps):
                    run.log(loss=index + 0.5 * seed, layers={"first": index + 1.0, "second": 2.0 * seed}, step=step)
                run.log(every=1.0, step=1)


@pytest.mark.parametrize("way", WAYS)
def test_steps_stay_as_they_were_given_in_every_view(tmp_path: Path, way: str) -> None:
    steps = WAYS[way]
    recorded(tmp_path / "runs", steps)
    store = Store.open(tmp_path / "runs")
    for run in store:
        assert run.series["loss"].step.tolist() == steps
        assert run.series["loss"].value.tolist() == [index + 0.5 * run.seed for index in range(4)]
        assert list(run.notes) == NOTES.get(way, [])
        trace = trace_series(run, ("loss",))
        assert trace is not None and trace.last_step == steps[-1]
    array = store.series("loss")
    assert list(array.labels["step"]) == sorted(steps)
    curve = array.sel(arm="a", seed=1).values
    order = sorted(range(4), key=lambda index: steps[index])
    assert curve.tolist() == [index + 0.5 for index in order], "no value is lost"

    export(store, "json", tmp_path / "x.json")
    first = json.loads((tmp_path / "x.json").read_text())["runs"][0]["series"]["loss"]
    assert first == {"step": steps, "value": [0.5, 1.5, 2.5, 3.5]}
    export(store, "csv", tmp_path / "x.csv")
    rows = [row for row in table(tmp_path / "x.csv") if row["id"] == store[0].id and row["loss"]]
    assert [float(row["step"]) for row in rows] == [float(step) for step in steps]
    assert [row["loss"] for row in rows] == ["0.5", "1.5", "2.5", "3.5"]
    if all(isinstance(step, int) for step in steps):
        assert [int(row["step"]) for row in rows] == steps
    write_bundle(tmp_path / "runs", tmp_path / "thin.zip", thin=True)
    with opened_runs(tmp_path / "thin.zip") as thin:
        assert [run.series["loss"].step.tolist() for run in Store.open(thin)] == 4 * [steps]
    assert all(check.holds for check in verify(tmp_path / "runs"))


@pytest.mark.parametrize(
    "way", [way if way in ("fractions", "repeated") else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_every_picture_of_the_steps_can_be_drawn(tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "runs", WAYS[way])
    assert call("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")) == 0
    drawn = "".join(re.findall(r"<svg.*?</svg>", (tmp_path / "page.html").read_text(), re.DOTALL))
    assert 'class="mean' in drawn and not re.search(r'="[^"]*(nan|inf)\b', drawn)
    for figure in ("mine-curves", "mine-kymograph"):
        assert call("figure", figure, "--dir", str(tmp_path / "runs"), "-o", str(tmp_path / "figures")) == 0, way
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("way", WAYS)
def test_trackers_get_whole_steps_or_one_sentence(tmp_path: Path, way: str) -> None:
    steps = WAYS[way]
    recorded(tmp_path / "runs", steps)
    store = Store.open(tmp_path / "runs").select(arms=["a"], seeds=[1])
    if way in ("fractions", "tiny", "huge"):
        for format in ("tensorboard", "mlflow"):
            with pytest.raises(KymographError, match=r"trackers count whole steps; export to csv, json or parquet"):
                export(store, format, tmp_path / format)
            assert not (tmp_path / format).exists()
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export(store, "tensorboard", tmp_path / "events")
    (folder,) = (tmp_path / "events" / "mine").iterdir()
    events = EventAccumulator(str(folder), {"scalars": 0}).Reload().Scalars("loss")
    assert sorted(event.step for event in events) == sorted(steps)
    assert sorted(event.value for event in events) == [0.5, 1.5, 2.5, 3.5]


def test_equal_values_at_one_step_are_all_in_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    with ky.record("mine", arm="a", seed=1, out=tmp_path / "runs") as run:
        for value in (1.0, 1.0, 2.0, 1.0):
            run.log(x=value, step=3_000_000_000)
        run.summary["exact"] = 2**53 + 1
        run.summary["run"] = "text"
    export(Store.open(tmp_path / "runs"), "mlflow", tmp_path / "m.db")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'm.db'}")
    (found,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    history = sorted(client.get_metric_history(found.info.run_id, "x"), key=lambda metric: metric.timestamp)
    assert [(metric.step, metric.value) for metric in history] == [(3_000_000_000, v) for v in (1.0, 1.0, 2.0, 1.0)]
    assert found.data.tags["exact"] == "9007199254740993" and found.data.tags["summary/run"] == "text"
    assert found.data.tags["run"] == Store.open(tmp_path / "runs")[0].id


@pytest.mark.parametrize(
    "step",
    [True, "3", 1j, None, [1], np.bool_(True), np.datetime64("2026-01-01"), np.array([1, 2]), torch.tensor(True),
     torch.tensor(1j), np.str_("3"), float("nan"), float("inf"), -float("inf"), np.float32("nan"),
     torch.tensor(torch.inf), 2**63, -(2**63) - 1, 10**400, np.uint64(2**63)],
)  # fmt: skip
def test_a_step_that_is_no_number_is_refused_in_one_sentence(step: Any) -> None:
    logged = LoggedSeries()
    with pytest.raises(KymographError, match=r"^a step must (be a number|be finite|fit in 64 bits)") as error:
        logged.log(step, {"x": 1.0})
    assert "\n" not in str(error.value) and not logged.series(), "nothing was recorded"


@pytest.mark.parametrize(
    ("step", "wanted"),
    [(np.int8(3), 3), (torch.tensor(3), 3), (torch.tensor([3]), 3), (np.uint64(3), 3),
     (np.float32(0.1), 0.10000000149011612), (torch.tensor(0.5, dtype=torch.bfloat16), 0.5), (3e9, 3e9),
     (2**63 - 1, 2**63 - 1)],
)  # fmt: skip
def test_a_step_of_any_type_of_number_is_that_number(step: Any, wanted: int | float) -> None:
    found = checked_step(step)
    assert found == wanted and type(found) is type(wanted)


def test_steps_that_no_single_type_holds_are_refused() -> None:
    for first, second in ((2**53 + 1, 0.5), (0.5, 2**53 + 1)):
        logged = LoggedSeries()
        logged.log(first, {"x": 1.0})
        with pytest.raises(KymographError, match="no single type holds exactly; log them as two series"):
            logged.log(second, {"y": 1.0, "x": 2.0})
        assert len(logged.series()["x"].step) == 1 and "y" not in logged.series()
    with pytest.raises(KymographError, match="fractional steps, and others integers as large as 9007199254740993"):
        aligned([np.array([2**53 + 1]), np.array([0.5])])


def test_fractions_survive_a_restart() -> None:
    logged, again = LoggedSeries(), LoggedSeries()
    for step in (0.5, 1, 1.5):
        logged.log(step, {"x": 1.0})
    again.load_state(logged.state())
    again.log(2.25, {"x": 2.0})
    assert again.series()["x"].step.tolist() == [0.5, 1.0, 1.5, 2.25]
    with pytest.raises(KymographError, match="no single type"):
        again.log(2**53 + 1, {"x": 2.0})


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (np.array([0.0, np.nan]), "has the step nan; a step must be a finite float64"),
        (np.array([0, 2**63], dtype=np.uint64), "has the step 9223372036854775808, which does not fit in 64 bits"),
        (np.array([False, True]), "has steps of type bool"),
        (np.array([0, 1], dtype=object), "has steps of type object"),
        (np.array([0j, 1]), "has steps of type complex128"),
    ],
)
def test_a_study_s_steps_are_checked_before_anything_is_written(tmp_path: Path, step: np.ndarray, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        write_record(tmp_path, RunSpec("s", "a", 1, {}, 1), RunResult({"x": RunSeries(step, np.zeros(2))}, {}), {}, 0.0)
    assert not list(tmp_path.iterdir())


def test_steps_that_fit_keep_the_bytes_they_had() -> None:
    """SHA-256 of a file written by an earlier version, whose steps were int32."""
    series = {
        "loss": RunSeries(np.arange(3), np.array([1.0, 0.5, 0.25])),
        "norm": RunSeries(np.array([0, 2]), np.ones((2, 2), np.float32), ("a", "b")),
        "again": RunSeries(np.arange(3, dtype=np.int8), np.zeros(3)),
        "none": RunSeries(np.empty(0), np.empty(0)),
    }
    found = hashlib.sha256(record._pack(series)).hexdigest()
    assert found == "1b7969410b01faafd2e787e1fd733738ee27b003f1b0d093ff44d35d4b733983"


def test_steps_with_the_same_bytes_in_two_types_are_two_grids(tmp_path: Path) -> None:
    """0 and 0.0 have the same bytes; so have the int64 2**40 and a tiny float."""
    big = np.array([2**40, 2**41])
    series = {"x": RunSeries(big, np.zeros(2)), "y": RunSeries(big.view(np.float64), np.zeros(2))}
    spec = RunSpec("s", "a", 1, {}, 1)
    write_record(tmp_path, spec, RunResult(series, {}), {}, 0.0)
    run = StoredRun(tmp_path / spec.directory)
    assert run.series["x"].step.tolist() == big.tolist() and run.series["y"].step.dtype == np.float64


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (RunResult({}, {1: 1.0, "1": 2.0}), "summary has 1 as the name of a number"),  # type: ignore[dict-item]
        (RunResult({}, {"x": 10**400}), r"summary\['x'\] is an integer of 401 digits"),
        (RunResult({}, {"x": 1j}), r"summary\['x'\] is 1j \(complex\)"),  # type: ignore[dict-item]
        (RunResult({}, {"x": "\udc80"}), r"summary\['x'\] is '\\udc80', whose lone surrogate"),
        (RunResult({"\udc80": RunSeries(np.arange(1), np.zeros(1))}, {}), "the name of a series is"),
        (RunResult({"x": RunSeries(np.arange(1), np.zeros((1, 2)), ("a", "a"))}, {}), "has the site 'a' twice"),
        (RunResult({}, {}, notes=(5,)), "the note 5 is a int; notes are strings"),  # type: ignore[arg-type]
    ],
)
def test_a_study_s_result_that_cannot_be_read_back_is_refused(tmp_path: Path, result: RunResult, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        write_record(tmp_path, RunSpec("s", "a", 1, {}, 1), result, {}, 0.0)
    assert not list(tmp_path.iterdir())


def test_a_series_and_the_site_of_another_share_no_column(tmp_path: Path) -> None:
    """Both are called a/b; one of them was lost."""
    series = {
        "a": RunSeries(np.arange(2), np.array([[1.0], [2.0]]), ("b",)),
        "a/b": RunSeries(np.arange(2), np.array([3.0, 4.0])),
        "series/step": RunSeries(np.arange(2), np.array([5.0, 6.0])),
        "step": RunSeries(np.arange(2), np.array([7.0, 8.0])),
    }
    write_record(tmp_path / "runs", RunSpec("s", "x", 1, {}, 1), RunResult(series, {}), {}, 0.0)
    store = Store.open(tmp_path / "runs")
    rows = table(export(store, "csv", tmp_path / "x.csv"))
    values = [value for name, value in rows[0].items() if name not in ("study", "arm", "seed", "id", "step")]
    assert values == ["1.0", "3.0", "5.0", "7.0"] and rows[0]["step"] == "0"
    with pytest.raises(KymographError, match="two quantities of a run are called 'a/b' here"):
        export(store, "tensorboard", tmp_path / "events")
