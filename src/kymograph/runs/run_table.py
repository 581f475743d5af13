"""Stored runs as rows of a table: what names a run, every setting, every summary number.

All formats that are tables have these columns under these names, so that runs with two learning rates can be told apart
in each of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kymograph.runs.stored import StoredRun

FIXED = ("study", "arm", "seed", "id", "status", "series", "step", "site", "value")
"""Columns that a setting cannot take: one that is called so is in the column ``setting/NAME``."""
_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}  # how JSON holds them


def setting_columns(runs: Iterable[StoredRun]) -> dict[str, str]:
    """Returns the column of every setting that some run has, by the setting's name."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    return {name: f"setting/{name}" if name in FIXED else name for name in names}


def differing_settings(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Returns the columns of those settings in which the runs differ, by the setting's name."""
    found = setting_columns(runs)
    return {
        name: column
        for name, column in found.items()
        if len({json.dumps([name in run.config, run.config.get(name)], sort_keys=True) for run in runs}) > 1
    }


def setting_cells(run: StoredRun, columns: Mapping[str, str]) -> dict[str, Any]:
    """Returns a run's settings by column; one that it lacks is None, and a list is a JSON text."""
    return {column: _cell(run.config.get(name)) for name, column in columns.items()}


def summary_rows(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Returns one row per run, all with the same columns: identity, status, settings and summary numbers.

    A summary number that is called like a setting is in the column ``summary/NAME``. What a run lacks is None.
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
    """Returns an infinity that JSON holds as a text as the number; anything else as it is."""
    return _INFINITE.get(value, value) if isinstance(value, str) else value


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
