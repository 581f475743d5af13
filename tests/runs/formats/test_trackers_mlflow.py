from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kymograph._errors import KymographError
from kymograph._runs.formats import export
from kymograph._runs.formats.trackers import _key
from kymograph._runs.store import Store
from tests.records import write_record
from tests.runs.formats.awkward import awkward_store, expected, result, spec

LARGEST = np.finfo(np.float64).max


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """A store and its database; making the tables takes a second, so the tests share it."""
    root = tmp_path_factory.mktemp("mlflow")
    store = awkward_store(root / "runs")
    return store, export(store, "mlflow", root / "runs.db")


def client_of(path: Path) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{path}")


def runs_of(client: Any, study: str) -> dict[str, Any]:
    """The runs that MLflow shows in a study's experiment, by our id."""
    found = client.search_runs([client.get_experiment_by_name(study).experiment_id])
    assert len({run.data.tags["run"] for run in found}) == len(found), "a run is there twice"
    return {run.data.tags["run"]: run for run in found}


@pytest.mark.slow
def test_mlflow_reads_what_the_store_holds(exported: tuple[Store, Path]) -> None:
    store, path = exported
    client = client_of(path)
    for study in store.studies:
        found = runs_of(client, study)
        assert set(found) == {run.id for run in store.select(study)}
        for run in store.select(study):
            theirs = found[run.id]
            assert theirs.data.params == {name: str(value) for name, value in run.config.items()}
            tags = theirs.data.tags
            assert (tags["study"], tags["arm"], tags["seed"]) == (study, run.arm, str(run.seed))
            assert theirs.info.status == {"diverged": "FINISHED", "failed": "FAILED"}[run.status]
            wanted = expected(run.seed) if run.has_results else {}
            assert set(theirs.data.metrics) == {_key(tag) for tag in wanted}
            for tag, pairs in wanted.items():
                history = client.get_metric_history(theirs.info.run_id, _key(tag))
                points = sorted((metric.step, metric.value) for metric in history)
                assert points == [(step, min(value, LARGEST)) for step, value in pairs], tag
    assert found and runs_of(client, "one")[store.failed.runs[0].id].data.tags["reason"] == "loss is NaN at step 3"
    assert tags["kind"] == "k1", "a word of the summary"


@pytest.mark.slow
def test_exporting_again_adds_only_what_is_new(exported: tuple[Store, Path], tmp_path: Path) -> None:
    store, path = exported
    client = client_of(path)
    before = {run.info.run_id for run in runs_of(client, "one").values()}
    root = store.root
    assert root is not None
    failed = store.failed.runs[0]
    write_record(root, failed.spec, result(1), {}, 1.0)  # it was run again and finished
    write_record(root, spec("one", "a/clip", 3), result(3), {}, 1.0)
    cut_off = client.create_run(client.get_experiment_by_name("one").experiment_id)  # as a kill leaves it
    client.set_tag(cut_off.info.run_id, "run", next(run.id for run in store if run.seed == 2))
    client.delete_run(next(key for key in before if client.get_run(key).data.tags.get("seed") == "2"))
    export(Store.open(root), "mlflow", path)
    after = runs_of(client, "one")
    assert len(after) == 4 and {run.info.status for run in after.values()} == {"FINISHED"}
    assert after[failed.id].data.metrics["loss"] == LARGEST
    kept = {run.info.run_id for run in after.values()} & before
    assert {client.get_run(key).data.tags["seed"] for key in kept} == {"1"}, "what was whole was not touched"
    assert not (path.parent / "mlruns").exists() and not Path("mlruns").exists()


@pytest.mark.slow
def test_a_deleted_database_is_written_anew(tmp_path: Path) -> None:
    """MLflow keeps connections by name, and used to fail to write to the file that was deleted."""
    write_record(tmp_path / "runs", spec("one", "a", 1), result(1), {}, 0.1)
    store, path = Store.open(tmp_path / "runs"), tmp_path / "m.db"
    for _ in range(3):
        export(store, "mlflow", path)
        assert path.stat().st_size > 0
        path.unlink()
    export(store, "mlflow", path)
    export(store, "mlflow", path)


def test_names_that_mlflow_refuses_are_written_as_codes() -> None:
    assert _key("blocks/h_0") == "blocks/h_0"
    assert _key("||h|| %") == "-7c--7c-h-7c--7c- -25-"
    assert len({_key(name) for name in ("a|b", "a%b", "a_b", "a:b")}) == 4


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(KymographError, match="not an MLflow database; choose another file"):
        export(store, "mlflow", tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_mlflow_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = awkward_store(tmp_path / "runs")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(KymographError, match=r"kymograph\[mlflow\]"):
        export(store, "mlflow", tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_is_neither_opened_nor_replaced(tmp_path: Path, through_a_link: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    target = tmp_path / "pipe"
    if through_a_link:
        target = tmp_path / "m.db"
        target.symlink_to("pipe")
    with pytest.raises(KymographError, match="it is a pipe, not a file; choose another path"):
        export(awkward_store(tmp_path / "runs"), "mlflow", target)
    assert (tmp_path / "pipe").is_fifo()
