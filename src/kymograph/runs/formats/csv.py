"""Stored runs as one long CSV table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from kymograph.runs.files import write_atomically
from kymograph.runs.store import Store

PART = {"about": "one long CSV table", "order": 2}


def write(store: Store, path: Path) -> None:
    """Writes one row per finished run, series, step and site; a missing value is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["study", "arm", "seed", "id", "series", "step", "site", "value"])
    for run in store.finished:
        for name, entry in run.series.items():
            head = (run.study, run.arm, run.seed, run.id, name)
            sites = entry.sites or ("",)
            values = entry.value.reshape(len(entry.step), len(sites)).tolist()
            writer.writerows(
                (*head, step, site, "" if value != value else value)
                for step, row in zip(entry.step.tolist(), values, strict=True)
                for site, value in zip(sites, row, strict=True)
            )
    write_atomically(path, text.getvalue().encode())
