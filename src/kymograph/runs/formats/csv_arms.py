"""Runs from elsewhere: a directory of CSV files with the columns seed, step and value is one arm."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.record import RunSeries


@dataclass(frozen=True)
class ImportedRun:
    """A run from elsewhere: its arm is the directory's name, its series are the files."""

    arm: str
    seed: int
    series: Mapping[str, RunSeries]
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_csv_arm(directory: str | Path) -> list[ImportedRun]:
    """Returns the runs of a directory of CSV files with columns seed, step and value, one file per series."""
    place = Path(directory)
    files = sorted(place.glob("*.csv")) if place.is_dir() else []
    if not files:
        raise KymographError(f"{place} holds no CSV file with the columns seed, step and value")
    by_seed: dict[int, dict[str, list[tuple[int, float]]]] = {}
    for path in files:
        for seed, step, value in _csv_rows(path):
            by_seed.setdefault(seed, {}).setdefault(path.stem, []).append((step, value))
    if not by_seed:
        raise KymographError(f"the CSV files of {place} hold no values")
    runs = []
    for seed, series in sorted(by_seed.items()):
        arrays = {}
        for name, rows in series.items():
            rows.sort()
            steps = [step for step, _ in rows]
            if len(set(steps)) < len(steps):
                raise KymographError(f"{place / name}.csv has two values at one step of seed {seed}")
            arrays[name] = RunSeries(np.array(steps), np.array([value for _, value in rows], dtype=np.float64))
        runs.append(ImportedRun(place.name, seed, arrays))
    return runs


def _csv_rows(path: Path) -> list[tuple[int, int, float]]:
    rows = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in ("seed", "step", "value") if name not in (reader.fieldnames or [])]
            if lacking:
                raise KymographError(f"{path} has no column {lacking[0]!r}; it needs seed, step and value")
            for number, row in enumerate(reader, start=2):
                try:
                    value = math.nan if row["value"] in ("", None) else float(row["value"])
                    rows.append((int(row["seed"]), int(row["step"]), value))
                except (TypeError, ValueError):
                    raise KymographError(f"{path}, line {number} is not a seed, a step and a value") from None
    except (UnicodeDecodeError, csv.Error):
        raise KymographError(f"{path} is not a CSV file") from None
    return rows
