"""Stored runs for other programs: JSON, CSV and Parquet files, TensorBoard's and MLflow's own layouts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.files import SCHEMA, plain, write_atomically
from kymograph.runs.formats.mlflow import write_mlflow
from kymograph.runs.formats.tensorboard import write_tensorboard
from kymograph.runs.store import Store, StoredRun


def export(store: Store, to: str, output: str | Path) -> Path:
    """Writes every run of ``store`` to ``output``; returns the path.

    Args:
        store: the runs.
        to: ``json``, ``csv`` or ``parquet`` (a file; Parquet's summaries stand beside it as ``NAME-summary.parquet``),
            ``tensorboard`` (a directory of event files) or ``mlflow`` (an SQLite database).
        output: the file or directory to write. Writing again replaces what these runs wrote before.
    """
    formats: dict[str, Callable[[Store, Path], None]] = {
        "json": lambda runs, path: write_atomically(path, _json(runs)),
        "csv": lambda runs, path: write_atomically(path, _csv(runs)),
        "parquet": _parquet,
        "tensorboard": write_tensorboard,
        "mlflow": write_mlflow,
    }
    if to not in formats:
        raise KymographError(f"cannot export to {to!r}{did_you_mean(to, formats)}")
    path = Path(output)
    if not path.parent.is_dir():
        raise KymographError(f"there is no directory {path.parent}; make it first")
    formats[to](store, path)
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
            sites = entry.sites or ("",)
            values = entry.value.reshape(len(entry.step), len(sites)).tolist()
            writer.writerows(
                (*head, step, site, "" if value != value else value)
                for step, row in zip(entry.step.tolist(), values, strict=True)
                for site, value in zip(sites, row, strict=True)
            )
    return text.getvalue().encode()


def _parquet(store: Store, path: Path) -> None:
    """Writes the long table, and beside it the summaries, one row per run."""
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
