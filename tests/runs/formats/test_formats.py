"""The formats to which runs are exported."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph._errors import KymographError
from kymograph._runs.formats import export
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record
from tests.runs.formats.awkward import awkward_store
from tests.studies.walks import STEPS


def test_parquet_is_a_long_table_and_a_table_of_summaries(tmp_path: Path) -> None:
    import pandas

    store = awkward_store(tmp_path / "runs")
    table = pandas.read_parquet(export(store, "parquet", tmp_path / "runs.parquet"))
    settings = {"lr", "epochs", "clip", "skip", "limit"}
    assert set(table.columns) == {"study", "arm", "seed", "id", "series", "site", "step", "value"} | settings
    assert (
        set(table.lr) == {0.1} and set(table["clip"]) == {"norm"} and table["skip"].all() and table.limit.isna().all()
    )
    for run in store.finished:
        mine = table[table.id == run.id]
        for name, series in run.series.items():
            rows = mine[mine.series == name]
            np.testing.assert_array_equal(rows.value.to_numpy().reshape(series.value.shape), series.value)
            assert rows.step.unique().tolist() == series.step.tolist()
            assert tuple(rows.site.dropna().unique()) == (series.sites or ())
    summaries = pandas.read_parquet(tmp_path / "runs-summary.parquet").set_index("id")
    assert len(summaries) == len(store)
    for run in store.finished:
        row = summaries.loc[run.id]
        assert row.gain == run.summary["gain"] and row.final_loss == np.inf and row.kind == run.summary["kind"]
        assert pandas.isna(row.rare), "missing, not 0"
    assert pandas.isna(summaries.loc[store.failed.runs[0].id].gain)


def test_a_key_that_is_a_word_here_and_a_number_there_is_a_word(tmp_path: Path) -> None:
    import pandas

    from kymograph._runs.record import RunResult
    from tests.records import write_record
    from tests.runs.formats.awkward import spec

    store = awkward_store(tmp_path / "runs")
    write_record(tmp_path / "runs", spec("two", "c", 1), RunResult({}, {"kind": 3.5}), {}, 1.0)
    export(type(store).open(tmp_path / "runs"), "parquet", tmp_path / "x.parquet")
    kinds = pandas.read_parquet(tmp_path / "x-summary.parquet").kind
    assert set(kinds.dropna()) == {"k1", "k2", "3.5"} and kinds.isna().sum() == 1


def test_without_its_library_one_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = awkward_store(tmp_path / "runs")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(KymographError, match=r"kymograph\[frame\]"):
        export(store, "parquet", tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def two_learning_rates(root: Path) -> Store:
    """Two runs of one arm and seed that differ in a setting, and nothing else."""
    for lr in (0.1, 0.03):
        one = RunSpec("rates", "only", 1, {"lr": lr, "steps": 2, "sizes": [4, 8]}, 1)
        series = {"loss": RunSeries(np.arange(2), np.array([1.0, lr], dtype=np.float32))}
        write_record(root, one, RunResult(series, {"final_loss": lr}), {}, 1.0)
    return Store.open(root)


@pytest.mark.parametrize(
    "kind", ["csv", "csv-summary", "json", "parquet", "tensorboard", pytest.param("mlflow", marks=pytest.mark.slow)]
)
def test_two_learning_rates_can_be_told_apart_in_every_export(tmp_path: Path, kind: str) -> None:
    import pandas

    output = export(two_learning_rates(tmp_path / "runs"), kind, tmp_path / f"out.{kind}")
    summary = tmp_path / f"out-summary.{kind}"
    if kind == "csv":
        tables = [pandas.read_csv(output), pandas.read_csv(summary)]
    elif kind == "csv-summary":
        tables = [pandas.read_csv(output)]
    elif kind == "parquet":
        tables = [pandas.read_parquet(output), pandas.read_parquet(summary)]
    elif kind == "json":
        tables = [pandas.DataFrame([run["config"] for run in json.loads(output.read_text())["runs"]])]
    elif kind == "mlflow":
        with contextlib.closing(sqlite3.connect(output)) as connection:
            found = connection.execute("select value from params where key = 'lr'").fetchall()
        tables = [pandas.DataFrame({"lr": [float(value) for (value,) in found]})]
    else:
        rates = [re.search(rb'"lr": ([0-9.]+)', path.read_bytes()) for path in output.rglob("events*")]
        tables = [pandas.DataFrame({"lr": [float(rate[1]) for rate in rates if rate]})]
    for table in tables:
        assert set(table.lr) == {0.1, 0.03}


def test_the_json_export_has_the_promised_layout(walk_store: Store, tmp_path: Path) -> None:
    content = json.loads(export(walk_store, "json", tmp_path / "runs.json").read_text())
    assert content["schema"] == 1
    assert len(content["runs"]) == 12
    run = content["runs"][0]
    assert set(run) >= {"id", "study", "arm", "seed", "status", "config", "series", "summary"}
    assert run["series"]["loss"]["step"] == list(range(2 * STEPS)) and "sites" not in run["series"]["loss"]
    accuracy = run["series"]["accuracy"]
    assert accuracy["sites"] == ["class_0", "class_1", "class_2", "class_3"]
    assert accuracy["value"][0][2] is None, "an absent class is missing, not 0"


def test_export_says_what_is_wrong(walk_store: Store, tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="cannot export to 'jsn'; did you mean 'json'"):
        export(walk_store, "jsn", tmp_path / "x")
    assert export(walk_store, "json", tmp_path / "absent" / "x.json").is_file(), "its directory is made"
