from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from kymograph import RunResult, RunSeries
from kymograph.runs.formats import export
from kymograph.runs.formats.tables import csv_line
from kymograph.runs.record import write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store


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
