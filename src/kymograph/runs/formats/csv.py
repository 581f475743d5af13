"""Stored runs as two CSV tables: series, with one row per run and step, and summaries, with one row per run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from kymograph.runs.formats import csv_summary
from kymograph.runs.formats.csv_text import csv_line, number_texts, summary_path, write_csv
from kymograph.runs.formats.scalars import tags
from kymograph.runs.run_table import FIXED, differing_settings, setting_cells
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun

PART = {"about": "a CSV table of series, and one of summaries next to it", "order": 2}


def write(store: Store, path: Path) -> None:
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
    csv_summary.write(store, summary_path(path))


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
