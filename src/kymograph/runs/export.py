"""Stored runs as one file: JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.record import SCHEMA, plain, write_atomically
from kymograph.runs.store import Store, StoredRun


def export(store: Store, to: str, output: str | Path) -> Path:
    """Writes every run of ``store`` to ``output`` as ``json``, ``csv`` or ``parquet``; returns the path."""
    formats = {"json": _json, "csv": _csv, "parquet": _parquet}
    if to not in formats:
        raise KymographError(f"cannot export to {to!r}{did_you_mean(to, formats)}")
    path = Path(output)
    if not path.parent.is_dir():
        raise KymographError(f"there is no directory {path.parent}; make it first")
    write_atomically(path, formats[to](store))
    return path


def _json(store: Store) -> bytes:
    content = {"schema": SCHEMA, "runs": [_run_to_dict(run) for run in store]}
    return json.dumps(content, allow_nan=False).encode()


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


def _csv(store: Store) -> bytes:
    """One row per run, series, step and site; a missing value is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["study", "arm", "seed", "id", "series", "step", "site", "value"])
    for run in store.finished:
        for name, entry in run.series.items():
            head = (run.study, run.arm, run.seed, run.id, name)
            values = entry.value.reshape(len(entry.step), -1).tolist()
            sites = entry.sites or ("",)
            writer.writerows(
                (*head, step, site, "" if value != value else value)
                for step, row in zip(entry.step.tolist(), values, strict=True)
                for site, value in zip(sites, row, strict=True)
            )
    return text.getvalue().encode()


def _parquet(store: Store) -> bytes:
    table = store.to_pandas()
    buffer = io.BytesIO()
    try:
        table.to_parquet(buffer, index=False)
    except ImportError:
        raise KymographError("Parquet needs pyarrow; install it with `pip install 'kymograph[frame]'`") from None
    return buffer.getvalue()
