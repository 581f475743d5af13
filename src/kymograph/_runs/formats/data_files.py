"""Stored runs as files: one JSON file, CSV tables, or Parquet tables."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._io.writing import SCHEMA, plain, write_atomically
from kymograph._runs.formats.trackers import tags
from kymograph._runs.record import RunSeries
from kymograph._runs.steps import aligned, decreases, of_one_type
from kymograph._runs.storable import is_exact
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tables import (
    FIXED,
    as_float64,
    column_names,
    differing_columns,
    setting_cells,
    setting_columns,
    summary_rows,
)

PARTS = {
    "json": {"attribute": "export_json", "about": "one JSON file", "order": 1},
    "csv": {"attribute": "export_csv", "about": "a CSV table of series, and one of summaries next to it", "order": 2},
    "csv-summary": {
        "attribute": "export_csv_summary",
        "about": "a CSV table with one row per run: its settings and its summary numbers",
        "order": 2.5,
    },
    "parquet": {"attribute": "export_parquet", "about": "a Parquet table, and one of summaries next to it", "order": 3},
}
_END = "\r\n"  # the writer quotes a cell that contains a character of its line terminator
_FORMULA = ("=", "@", "+", "-", "\t", "\r")
Quantity = tuple[str, str | None]
"""A series, and one of its sites, or None if it has none."""
_ROWS = 500_000
"""How many rows of series are written to a Parquet file at a time."""


def export_json(store: Store, path: Path) -> None:
    """Writes every run of ``store`` with its settings, series, summary and provenance; missing values are null."""
    content = {"schema": SCHEMA, "runs": [_run_content(run) for run in store]}
    write_atomically(path, json.dumps(content, allow_nan=False).encode())


def _run_content(run: StoredRun) -> dict[str, Any]:
    series = {}
    for name, entry in run.series.items():
        series[name] = {"step": entry.step.tolist(), "value": plain(entry.value)}
        if entry.sites is not None:
            series[name]["sites"] = list(entry.sites)
    return {
        "id": run.id,
        "study": run.study,
        "arm": run.arm,
        "seed": run.seed,
        "status": run.status,
        "config": dict(run.config),
        "series": series,
        "summary": plain(run.summary),
        "provenance": run.provenance,
        **({} if run.divergence is None else {"diverged_at": run.divergence.step}),
        **({} if run.reason is None else {"reason": run.reason}),
    }


def csv_line(cells: Iterable[Any]) -> str:
    """Returns one row of a CSV file, without its line terminator; None is an empty cell.

    Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.

    >>> print(csv_line(["a, b", None, 0.1, True, "=1+1", "-0.5"]))
    "a, b",,0.1,True,'=1+1,-0.5
    """

    def cell(value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith(_FORMULA):
            return "" if value is None else value
        try:
            float(value)
        except ValueError:
            return f"'{value}"
        return value

    text = io.StringIO()
    csv.writer(text, lineterminator=_END).writerow(map(cell, cells))
    return text.getvalue().removesuffix(_END)


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
    ``series/NAME``. A step that was logged several times has that many rows, and quantities whose steps decrease have
    rows of their own, in the order of logging.
    """
    runs = store.finished.runs
    settings = differing_columns(runs)
    columns = quantity_columns(runs, {*FIXED, *settings.values()})
    lines = [csv_line(["study", "arm", "seed", "id", *settings.values(), "step", *columns.values()])]
    for run in runs:
        lines += _csv_rows(run, settings, columns)
    write_csv(path, lines)
    export_csv_summary(store, summary_path(path))


def quantity_columns(runs: Iterable[StoredRun], taken: set[str]) -> dict[Quantity, str]:
    """Returns the column name of every quantity, or of each of its sites, by series and site."""
    series = dict.fromkeys((name, entry.sites) for run in runs for name, entry in run.series.items())
    quantities = dict.fromkeys((name, site) for name, sites in series for site in sites or (None,))
    columns: dict[Quantity, str] = {}
    used = {*taken}
    for name, site in quantities:  # a series "a/b", and the site "b" of a series "a", have one tag
        (tag,) = tags(name, None if site is None else (site,))
        columns[name, site] = column_names([tag], "series", used)[tag]
        used.add(columns[name, site])
    return columns


def _csv_rows(run: StoredRun, settings: Mapping[str, str], columns: Mapping[Quantity, str]) -> Iterator[str]:
    """Yields the lines of one run, in the order of steps; series whose steps decrease come last, in their own order."""
    head = csv_line([run.study, run.arm, run.seed, run.id, *setting_cells(run, settings).values()])
    tables: dict[Any, dict[str, RunSeries]] = {None: {}}
    for name, entry in run.series.items():
        own = (entry.step.dtype.str, entry.step.tobytes()) if decreases(entry.step) else None
        tables.setdefault(own, {})[name] = entry
    for own, table in tables.items():
        grids = [entry.step for entry in table.values()]
        if not grids:
            continue
        steps, rows_of = aligned(grids) if own is None else (grids[0], [np.arange(len(grids[0]))] * len(grids))
        cells: dict[Quantity, list[str]] = {}
        for (name, entry), rows in zip(table.items(), rows_of, strict=True):
            for site, values in zip(entry.sites or (None,), np.atleast_2d(entry.value.T), strict=True):
                column = cells[name, site] = [""] * len(steps)
                for row, text in zip(rows.tolist(), number_texts(values), strict=True):
                    column[row] = text
        filled = [cells.get(quantity, itertools.repeat("")) for quantity in columns]
        for line in zip(map(str, steps.tolist()), *filled, strict=False):
            yield f"{head},{','.join(line)}"


def export_parquet(store: Store, path: Path) -> None:
    """Writes the long table to ``path``, and the summaries, one row per run, to ``NAME-summary.parquet``.

    Every setting is a column of both; columns that repeat one value take next to no space.
    """
    arrow, parquet = _import_arrow()
    rows = summary_rows(store.runs)
    columns = {name: one_type([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    series, summaries = _series_bytes(store.finished.runs), io.BytesIO()
    parquet.write_table(arrow.table(columns), summaries)  # pandas would turn integers with gaps into floats
    write_atomically(path, series)
    write_atomically(summary_path(path), summaries.getvalue())


def one_type(values: Sequence[Any]) -> list[Any]:
    """Returns the cells of a column as one type, as Parquet requires: numbers, Booleans or strings.

    Numbers that no one type holds exactly are strings.

    >>> one_type([1, 0.5, None]), one_type(["norm", 0.5, None]), one_type([2**53 + 1, 0.5])
    ([1.0, 0.5, None], ['norm', '0.5', None], ['9007199254740993', '0.5'])
    """
    kinds = {type(value) for value in values if value is not None}
    whole = [value for value in values if type(value) is int]
    if len(kinds) < 2 and all(-(2**63) <= value < 2**63 for value in whole):
        return list(values)
    kind = float if kinds == {int, float} and all(map(is_exact, whole)) else str
    return [None if value is None else kind(value) for value in values]


def _series_bytes(runs: Sequence[StoredRun]) -> bytes:
    """Returns the long table of finished runs as a Parquet file."""
    arrow, parquet = _import_arrow()
    settings = setting_columns(runs)
    cells = [setting_cells(run, settings) for run in runs]
    by_column = {column: one_type([row[column] for row in cells]) for column in settings.values()}
    types = {column: arrow.array(values).type for column, values in by_column.items()}
    types = {name: arrow.string() if arrow.types.is_null(kind) else kind for name, kind in types.items()}
    text, whole, real = arrow.string(), arrow.int64(), arrow.float64()
    steps = of_one_type(series.step for run in runs for series in run.series.values())
    step = real if any(grid.dtype.kind == "f" for grid in steps) else whole
    head = {"study": text, "arm": text, "seed": whole, "id": text, **types}
    schema = arrow.schema({**head, "series": text, "step": step, "site": text, "value": real})
    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, schema) as writer:
        waiting: list[Any] = []
        for index, run in enumerate(runs):
            identity = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id}
            settings_cells = {column: values[index] for column, values in by_column.items()}
            waiting += _arrow_tables(run, {**identity, **settings_cells}, schema, arrow)
            if sum(table.num_rows for table in waiting) >= _ROWS:
                writer.write_table(arrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(arrow.concat_tables(waiting))
    return buffer.getvalue()


def _arrow_tables(run: StoredRun, head: Mapping[str, Any], schema: Any, arrow: Any) -> Iterator[Any]:
    """Yields the table of each series of a run: one row per step and site."""
    for name, series in run.series.items():
        sites = series.sites or (None,)
        count = len(series.step) * len(sites)
        columns = {
            column: arrow.repeat(arrow.scalar(value, schema.field(column).type), count)
            for column, value in {**head, "series": name}.items()
        }
        step = schema.field("step").type
        columns["step"] = arrow.array(np.repeat(series.step, len(sites)).astype(step.to_pandas_dtype()), step)
        columns["site"] = arrow.array(list(sites) * len(series.step), schema.field("site").type)
        columns["value"] = arrow.array(as_float64(name, series))
        yield arrow.table(columns, schema=schema)


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise KymographError("Parquet needs pyarrow; install it with `pip install 'kymograph[frame]'`") from None
    return pyarrow, pyarrow.parquet
