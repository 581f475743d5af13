"""Stored runs as a CSV table with one row per run."""

from __future__ import annotations

from pathlib import Path

from kymograph.runs.formats.csv_text import csv_line, write_csv
from kymograph.runs.run_table import summary_rows
from kymograph.runs.store import Store

PART = {"about": "a CSV table with one row per run: its settings and its summary numbers", "order": 2.5}


def write(store: Store, path: Path) -> None:
    """Writes identity, status, every setting and every summary number of every run; missing values are empty cells."""
    rows = summary_rows(store.runs)
    write_csv(path, [csv_line(rows[0] if rows else ()), *(csv_line(row.values()) for row in rows)])
