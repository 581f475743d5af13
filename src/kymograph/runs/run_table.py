"""Stored runs as rows of a table: identity, settings and summary numbers.

All tabular formats share these column names, so that each one distinguishes runs with different learning rates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kymograph.runs.stored import StoredRun

FIXED = ("study", "arm", "seed", "id", "status", "series", "step", "site", "value")
"""Reserved column names; a setting with such a name is in the column ``setting/NAME``."""
_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}  # as stored in JSON


def setting_columns(runs: Iterable[StoredRun]) -> dict[str, str]:
    """Returns the column name of every setting that some run has, by setting."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    return {name: f"setting/{name}" if name in FIXED else name for name in names}


def differing_settings(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Returns the column names of the settings in which the runs differ, by setting."""
    found = setting_columns(runs)
    return {
        name: column
        for name, column in found.items()
        if len({json.dumps([name in run.config, run.config.get(name)], sort_keys=True) for run in runs}) > 1
    }


def setting_cells(run: StoredRun, columns: Mapping[str, str]) -> dict[str, Any]:
    """Returns a run's settings by column; missing ones are None, and lists are JSON strings."""
    return {column: _cell(run.config.get(name)) for name, column in columns.items()}


def summary_rows(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Returns one row per run, all with the same columns: identity, status, settings and summary numbers.

    A summary number whose name is taken is in the column ``summary/NAME``. Missing values are None.
    """
    settings = setting_columns(runs)
    taken = {*FIXED, *settings.values()}
    keys = dict.fromkeys(key for run in runs for key in run.summary)
    numbers = {key: f"summary/{key}" if key in taken else key for key in keys}
    rows = []
    for run in runs:
        row = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id, "status": run.status}
        row |= setting_cells(run, settings)
        row |= {column: as_number(run.summary.get(key)) for key, column in numbers.items()}
        rows.append(row)
    return rows


def as_number(value: Any) -> Any:
    """Returns an infinity that is stored as a string as a float; any other value unchanged."""
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
