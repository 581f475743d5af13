"""Stored runs as one JSON file, or as Parquet tables."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.io.writing import SCHEMA, plain, write_atomically
from kymograph.runs.formats.csv import summary_path
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.runs.tables import import_pandas, setting_cells, setting_columns, summary_rows

PARTS = {
    "json": {"attribute": "export_json", "about": "one JSON file", "order": 1},
    "parquet": {"attribute": "export_parquet", "about": "a Parquet table, and one of summaries next to it", "order": 3},
}


def export_json(store: Store, path: Path) -> None:
    """Writes every run of ``store`` with its settings, series, summary and provenance; missing values are null."""
    content = {"schema": SCHEMA, "runs": [_run_to_dict(run) for run in store]}
    write_atomically(path, json.dumps(content, allow_nan=False).encode())


def _run_to_dict(run: StoredRun) -> dict:
    series = {}
    for name, entry in run.series.items():
        series[name] = {"step": entry.step.tolist(), "value": plain(entry.value)}
        if entry.sites is not None:
            series[name]["sites"] = list(entry.sites)
    facts = {
        "id": run.id,
        "study": run.study,
        "arm": run.arm,
        "seed": run.seed,
        "status": run.status,
        "config": dict(run.config),
        "series": series,
        "summary": dict(run.summary),
        "provenance": run.provenance,
    }
    if run.reason is not None:
        facts["reason"] = run.reason
    return facts


_ROWS = 500_000
"""How many rows of series are written at a time."""


def export_parquet(store: Store, path: Path) -> None:
    """Writes the long table to ``path``, and the summaries, one row per run, to ``NAME-summary.parquet``.

    Every setting is a column of both; columns that repeat one value take next to no space.
    """
    pandas = import_pandas()
    rows = summary_rows(store.runs)
    columns = {name: one_type([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    contents = {path: _series_bytes(store.finished.runs), summary_path(path): _table_bytes(pandas.DataFrame(columns))}
    for file, content in contents.items():
        write_atomically(file, content)


def one_type(values: Sequence[Any]) -> list[Any]:
    """Returns the cells of a column as one type, as Parquet requires: numbers, Booleans or strings.

    >>> one_type([1, 0.5, None]), one_type(["norm", 0.5, None])
    ([1.0, 0.5, None], ['norm', '0.5', None])
    """
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return list(values)
    kind = float if kinds == {int, float} else str
    return [None if value is None else kind(value) for value in values]


def _series_bytes(runs: Sequence[StoredRun]) -> bytes:
    """Returns the long table of finished runs as a Parquet file."""
    arrow, parquet = _import_arrow()
    settings = setting_columns(runs)
    cells = [setting_cells(run, settings) for run in runs]
    by_column = {column: one_type([row[column] for row in cells]) for column in settings.values()}
    types = {column: arrow.array(values).type for column, values in by_column.items()}
    types = {name: arrow.string() if arrow.types.is_null(kind) else kind for name, kind in types.items()}
    text, whole = arrow.string(), arrow.int64()
    head = {"study": text, "arm": text, "seed": whole, "id": text, **types}
    schema = arrow.schema({**head, "series": text, "step": whole, "site": text, "value": arrow.float64()})
    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, schema) as writer:
        waiting: list[Any] = []
        for index, run in enumerate(runs):
            own = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id}
            own |= {column: values[index] for column, values in by_column.items()}
            waiting += _tables(run, own, schema, arrow)
            if sum(table.num_rows for table in waiting) >= _ROWS:
                writer.write_table(arrow.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(arrow.concat_tables(waiting))
    return buffer.getvalue()


def _tables(run: StoredRun, head: Mapping[str, Any], schema: Any, arrow: Any) -> Iterator[Any]:
    """Yields the table of each series of a run: one row per step and site."""
    for name, series in run.series.items():
        sites = series.sites or (None,)
        count = len(series.step) * len(sites)
        columns = {
            column: arrow.repeat(arrow.scalar(value, schema.field(column).type), count)
            for column, value in {**head, "series": name}.items()
        }
        columns["step"] = arrow.array(np.repeat(series.step, len(sites)), schema.field("step").type)
        columns["site"] = arrow.array(list(sites) * len(series.step), schema.field("site").type)
        columns["value"] = arrow.array(series.value.reshape(-1).astype(np.float64))
        yield arrow.table(columns, schema=schema)


def _table_bytes(table: Any) -> bytes:
    _import_arrow()
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise KymographError("Parquet needs pyarrow; install it with `pip install 'kymograph[frame]'`") from None
    return pyarrow, pyarrow.parquet
