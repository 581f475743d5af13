"""Stored runs as one JSON file, every series included."""

from __future__ import annotations

import json
from pathlib import Path

from kymograph.runs.files import SCHEMA, plain, write_atomically
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun

PART = {"about": "one JSON file", "order": 1}


def write(store: Store, path: Path) -> None:
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
