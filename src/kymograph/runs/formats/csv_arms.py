"""Imports runs from elsewhere: a directory of CSV files with the columns seed, step and value is one arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.foreign.documents import read_csv
from kymograph.foreign.files import is_directory
from kymograph.runs.typed_record import RunSeries
from kymograph.streams import MAX_SEED


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
    folder = Path(directory)
    files = sorted(folder.glob("*.csv")) if is_directory(folder) else []
    if not files:
        raise KymographError(f"{folder} contains no CSV file with the columns seed, step and value")
    by_seed: dict[int, dict[str, list[tuple[int, float]]]] = {}
    for path in files:
        for seed, step, value in _csv_rows(path):
            by_seed.setdefault(seed, {}).setdefault(path.stem, []).append((step, value))
    if not by_seed:
        raise KymographError(f"the CSV files of {folder} contain no values")
    runs = []
    for seed, series in sorted(by_seed.items()):
        arrays = {}
        for name, rows in series.items():
            rows.sort()
            steps = [step for step, _ in rows]
            if len(set(steps)) < len(steps):
                raise KymographError(f"{folder / name}.csv has two values at one step of seed {seed}")
            arrays[name] = RunSeries(np.array(steps), np.array([value for _, value in rows], dtype=np.float64))
        runs.append(ImportedRun(folder.name, seed, arrays))
    return runs


def _csv_rows(path: Path) -> list[tuple[int, int, float]]:
    rows = []
    for number, row in enumerate(read_csv(path, columns=("seed", "step", "value")), start=2):
        try:
            text = row["value"]
            seed, step = int(row["seed"] or ""), int(row["step"] or "")
            if max(abs(seed), abs(step)) > MAX_SEED:
                raise ValueError("out of range")
            rows.append((seed, step, float(text) if text else math.nan))
        except ValueError:
            raise KymographError(f"{path}, line {number} is not a seed, a step and a value") from None
    return rows
