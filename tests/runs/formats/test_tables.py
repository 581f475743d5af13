"""Stored runs as CSV tables."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from kymograph._runs.formats import export
from kymograph._runs.formats.data_files import csv_line, number_texts, quantity_columns
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record
from tests.runs.formats.awkward import awkward_store


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_every_value_comes_back_in_its_own_precision(walk_store: Store, tmp_path: Path) -> None:
    rows = rows_of(export(walk_store, "csv", tmp_path / "runs.csv").read_text())
    for run in walk_store:
        mine = {int(row["step"]): row for row in rows if row["id"] == run.id}
        for name, entry in run.series.items():
            for column, values in zip(entry.sites or ("",), np.atleast_2d(entry.value.T), strict=True):
                texts = [mine[step][f"{name}/{column}" if column else name] for step in entry.step.tolist()]
                found = np.array([text or "nan" for text in texts]).astype(np.float64).astype(entry.value.dtype)
                np.testing.assert_array_equal(found, values)


def test_there_is_one_row_per_run_and_step_and_missing_is_empty(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    rows = rows_of(export(store, "csv", tmp_path / "runs.csv").read_text())
    assert len(rows) == 3 * 4, "the failed run has none"
    first = rows[0]
    assert first["loss"] == "3.0" and first["blocks/h_0"] == "1.0" and first["blocks/||h|| %"] == ""
    assert first["count"] == "7" and rows[1]["count"] == "" and rows[3]["loss"] == "inf"
    assert "lr" not in first, "all runs have the same"
    summaries = rows_of((tmp_path / "runs-summary.csv").read_text())
    assert len(summaries) == 4 and {row["lr"] for row in summaries} == {"0.1"}
    assert [row["status"] for row in summaries].count("failed") == 1 and summaries[0]["rare"] == ""


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    store = awkward_store(tmp_path / "runs")
    plain = export(store, "csv", tmp_path / "runs.csv").read_bytes()
    packed = export(store, "csv", tmp_path / "runs.csv.gz")
    assert gzip.decompress(packed.read_bytes()) == plain
    summary = gzip.decompress((tmp_path / "runs-summary.csv.gz").read_bytes())
    assert summary == (tmp_path / "runs-summary.csv").read_bytes()
    before = packed.read_bytes()
    assert export(store, "csv", packed).read_bytes() == before, "the same runs, the same bytes"


def test_the_table_is_compact(tmp_path: Path) -> None:
    """Many quantities at the same steps: the identity of the run is not repeated with every value."""
    draw = np.random.default_rng(0)
    series = {f"quantity_{i}": RunSeries(np.arange(300), draw.random(300).astype(np.float32)) for i in range(8)}
    write_record(tmp_path, RunSpec("size", "an/arm", 42, {"lr": 0.1}, 1), RunResult(series, {}), {}, 1.0)
    store = Store.open(tmp_path)
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    assert export(store, "csv", tmp_path / "x.csv").stat().st_size < 4 * stored  # 20 times, as a long table
    assert export(store, "csv", tmp_path / "x.csv.gz").stat().st_size < 1.5 * stored


def test_a_series_that_is_called_like_a_setting_gives_way(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        series = {"lr": RunSeries(np.arange(1), np.array([0.05])), "step": RunSeries(np.arange(1), np.array([9.0]))}
        write_record(tmp_path, RunSpec("clash", "only", 1, {"lr": lr}, 1), RunResult(series, {}), {}, 1.0)
    rows = rows_of(export(Store.open(tmp_path), "csv", tmp_path / "x.csv").read_text())
    assert {(row["lr"], row["series/lr"], row["step"], row["series/step"]) for row in rows} == {
        ("0.1", "0.05", "0", "9.0"),
        ("0.2", "0.05", "0", "9.0"),
    }
    assert quantity_columns([], set()) == {}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_have_the_fewest_digits_that_restore_them(kind: type) -> None:
    values = np.random.default_rng(1).normal(size=100).astype(kind) * (10.0 ** np.arange(-30, 20, 0.5)).astype(kind)
    finite = values[np.isfinite(values)]
    texts = number_texts(finite)
    assert np.array_equal(np.array(texts).astype(kind), finite)
    assert max(map(len, texts)) <= (16 if kind is np.float32 else 24)


@pytest.mark.parametrize("text", ["=1+1", "@SUM(1)", "+cmd", "-2+3", "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_compute_stays_a_text(text: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(csv_line([text]), newline=""))
    assert cell == f"'{text}"


@pytest.mark.parametrize("value", ["-0.5", "+1e-3", -2, -0.5, "a=1", "two\nlines", "a\rb", 'a, "b"'])
def test_numbers_and_plain_texts_stay_as_they_are(value: object) -> None:
    ((cell,),) = csv.reader(io.StringIO(csv_line([value]), newline=""))
    assert cell == str(value)


@pytest.mark.parametrize("format", ["csv", "csv-summary"])
def test_no_exported_table_has_a_cell_that_is_computed(tmp_path: Path, format: str) -> None:
    result = RunResult({"=loss": RunSeries(np.arange(2), np.array([-1.0, -2.0]))}, {"@final": -2.0, "word": "+cmd"})
    write_record(tmp_path / "runs", RunSpec("lab", "=SUM(1)", 1, {"name": "-1+cmd"}, 1), result, {}, 1.0)
    path = export(Store.open(tmp_path / "runs"), format, tmp_path / "x.csv")
    cells = [cell for row in csv.reader(io.StringIO(path.read_text(), newline="")) for cell in row]
    assert "'=SUM(1)" in cells and "-2.0" in cells
    starting = [cell for cell in cells if cell.startswith(("=", "@", "+", "-"))]
    assert all(float(cell) < 0 for cell in starting), starting
