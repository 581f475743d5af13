"""Stored runs as a Parquet table of series, and a second one of summaries."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.files import write_atomically
from kymograph.runs.store import Store

PART = {"about": "a Parquet table, and one of summaries next to it", "order": 3}


def write(store: Store, path: Path) -> None:
    """Writes the long table to ``path``, and the summaries, one row per run, to ``NAME-summary.parquet``."""
    summaries = store.summary_to_pandas()
    for name in summaries.columns:  # a column of Parquet has one type
        kinds = {type(value) for value in summaries[name].dropna()}
        if str in kinds and len(kinds) > 1:
            summaries[name] = summaries[name].map(str, na_action="ignore")
    contents = {
        path: _table_bytes(store.to_pandas()),
        path.with_name(f"{path.stem}-summary{path.suffix}"): _table_bytes(summaries),
    }
    for place, content in contents.items():
        write_atomically(place, content)


def _table_bytes(table: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        table.to_parquet(buffer, index=False)
    except ImportError:
        raise KymographError("Parquet needs pyarrow; install it with `pip install 'kymograph[frame]'`") from None
    return buffer.getvalue()
