"""Stored runs as CSV tables, and runs from elsewhere as CSV files."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.io.writing import write_atomically
from kymograph.runs.formats.trackers import tags
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.runs.tables import FIXED, differing_settings, setting_cells, summary_rows

PARTS = {
    "csv-summary": {
        "attribute": "export_csv_summary",
        "about": "a CSV table with one row per run: its settings and its summary numbers",
        "order": 2.5,
    },
    "csv": {"attribute": "export_csv", "about": "a CSV table of series, and one of summaries next to it", "order": 2},
}


_END = "\r\n"  # the writer quotes a cell that contains a character of its line terminator
_FORMULA = ("=", "@", "+", "-", "\t", "\r")


def csv_line(cells: Iterable[Any]) -> str:
    """Returns one row of a CSV file, without its line terminator; None is an empty cell.

    Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.

    >>> csv_line(["a, b", None, 0.1, True, "=1+1", "-0.5"])
    '"a, b",,0.1,True,\'=1+1,-0.5'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator=_END).writerow([_cell(cell) for cell in cells])
    return text.getvalue().removesuffix(_END)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def number_texts(values: np.ndarray) -> list[str]:
    """Returns (n,) numbers as text, each with the fewest digits that restore it in its precision; NaN is empty.

    >>> number_texts(np.array([0.1, np.nan, np.inf], dtype=np.float32))
    ['0.1', '', 'inf']
    """
    return ["" if text == "nan" else text for text in values.astype(str).tolist()]


def write_csv(path: Path, lines: Sequence[str]) -> None:
    """Writes the lines of a table to ``path`` atomically."""
    content = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def summary_path(path: Path) -> Path:
    """Returns the path of the table of summaries that goes with a table of series.

    >>> summary_path(Path("runs.csv.gz")).name
    'runs-summary.csv.gz'
    """
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(ending)}-summary{ending}")


def export_csv_summary(store: Store, path: Path) -> None:
    """Writes identity, status, every setting and every summary number of every run; missing values are empty cells."""
    rows = summary_rows(store.runs)
    write_csv(path, [csv_line(rows[0] if rows else ()), *(csv_line(row.values()) for row in rows)])


def export_csv(store: Store, path: Path) -> None:
    """Writes a table with one row per finished run and step and a column per quantity, and the summaries next to it.

    A quantity that was measured at several sites has a column ``NAME/SITE`` for each. Cells without a measurement are
    empty. Only settings in which the runs differ are columns here, so that the file does not repeat the others at every
    step; the summaries have all settings and the same column ``id``. A series whose name is taken is in the column
    ``series/NAME``.
    """
    runs = store.finished.runs
    settings = differing_settings(runs)
    columns = quantity_columns(runs, {*FIXED, *settings.values()})
    lines = [csv_line(["study", "arm", "seed", "id", *settings.values(), "step", *columns.values()])]
    for run in runs:
        lines += _rows(run, settings, columns)
    write_csv(path, lines)
    export_csv_summary(store, summary_path(path))


def quantity_columns(runs: Iterable[StoredRun], taken: set[str]) -> dict[str, str]:
    """Returns the column name of every quantity, or of each of its sites, by tag."""
    found = dict.fromkeys(tag for run in runs for name, entry in run.series.items() for tag in tags(name, entry.sites))
    return {tag: f"series/{tag}" if tag in taken else tag for tag in found}


def _rows(run: StoredRun, settings: Mapping[str, str], columns: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of one run, in the order of steps."""
    if not run.series:
        return
    steps = np.unique(np.concatenate([entry.step for entry in run.series.values()]))
    cells: dict[str, list[str]] = {}
    for name, entry in run.series.items():
        rows = np.searchsorted(steps, entry.step).tolist()
        for tag, values in zip(tags(name, entry.sites), np.atleast_2d(entry.value.T), strict=True):
            cells[tag] = [""] * len(steps)
            for row, text in zip(rows, number_texts(values), strict=True):
                cells[tag][row] = text
    head = csv_line([run.study, run.arm, run.seed, run.id, *setting_cells(run, settings).values()])
    filled = [cells.get(tag, itertools.repeat("")) for tag in columns]
    for row in zip(map(str, steps.tolist()), *filled, strict=False):
        yield f"{head},{','.join(row)}"
