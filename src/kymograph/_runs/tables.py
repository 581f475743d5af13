"""Stored runs as rows of a table: identity, settings and summary numbers.

All tabular formats share these column names, so that each one distinguishes runs with different learning rates.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._runs.record import RunSeries
from kymograph._runs.steps import EXACT, of_one_type
from kymograph._runs.storable import is_exact
from kymograph._runs.stored_run import StoredRun

FIXED = ("study", "arm", "seed", "id", "status", "diverged_at", "series", "step", "site", "value")
"""Reserved column names; a setting with such a name is in the column ``setting/NAME``."""


def setting_columns(runs: Iterable[StoredRun]) -> dict[str, str]:
    """Returns the column name of every setting that some run has, by setting."""
    return column_names(dict.fromkeys(name for run in runs for name in run.config), "setting", FIXED)


def column_names(names: Iterable[str], kind: str, taken: Collection[str]) -> dict[str, str]:
    """Returns a column for every name: the name itself, or ``KIND/NAME`` where that is taken; no two are the same.

    >>> column_names(["loss", "step", "kind/step"], "kind", ["step"])
    {'loss': 'loss', 'step': 'kind/kind/step', 'kind/step': 'kind/step'}
    """
    wanted = list(names)
    columns = {name: name for name in wanted if name not in taken}  # these keep their names, wherever they come
    used = {*columns}
    for name in wanted:
        column = columns.get(name, f"{kind}/{name}")
        while name not in columns and (column in used or column in taken):
            column = f"{kind}/{column}"
        columns[name] = column
        used.add(column)
    return {name: columns[name] for name in wanted}


def differing_columns(runs: Sequence[StoredRun]) -> dict[str, str]:
    """Returns the column names of the settings in which the runs differ, by setting."""
    return {
        name: column
        for name, column in setting_columns(runs).items()
        if len({json.dumps([name in run.config, run.config.get(name)], sort_keys=True) for run in runs}) > 1
    }


def setting_cells(run: StoredRun, columns: Mapping[str, str]) -> dict[str, Any]:
    """Returns a run's settings by column; missing ones are None, and lists are JSON strings."""
    values = {column: run.config.get(name) for name, column in columns.items()}
    return {
        column: json.dumps(value) if isinstance(value, list | tuple | dict) else value
        for column, value in values.items()
    }


def summary_rows(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Returns one row per run, all with the same columns: identity, status, settings and summary numbers.

    A summary number whose name is taken is in the column ``summary/NAME``. Missing values are None. If a run diverged,
    there is a column ``diverged_at``, the step.
    """
    settings = setting_columns(runs)
    taken = {*FIXED, *settings.values()}
    numbers = column_names(dict.fromkeys(key for run in runs for key in run.summary), "summary", taken)
    some_diverged = any(run.divergence is not None for run in runs)
    rows = []
    for run in runs:
        row = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id, "status": run.status}
        row |= {"diverged_at": None if run.divergence is None else run.divergence.step} if some_diverged else {}
        row |= setting_cells(run, settings)
        row |= {column: run.summary.get(key) for key, column in numbers.items()}
        rows.append(row)
    return rows


def as_float64(name: str, series: RunSeries) -> np.ndarray:
    """Returns the values of a series, in float64 and one after the other; raises if that would change one."""
    values = series.value.reshape(-1)
    if values.dtype.kind == "i":
        for number in values[(values > EXACT) | (values < -EXACT)].tolist():
            if not is_exact(number):
                raise KymographError(
                    f"the series {name!r} has the value {number}, which is not exactly a float64; export it as CSV or "
                    "JSON, or read it as run.series"
                )
    return values.astype(np.float64)


def series_frame(runs: Sequence[StoredRun]) -> Any:
    """Returns a long table of finished runs: one row per run, series, step and site.

    Only settings in which the runs differ are columns; `summary_frame` has all of them.
    """
    pandas = import_pandas()
    of_one_type(series.step for run in runs for series in run.series.values())  # raises where they have none
    settings = differing_columns(runs)
    parts = []
    for run in runs:
        head = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id} | setting_cells(run, settings)
        for name, series in run.series.items():
            sites = series.sites or (None,)
            columns = {
                "series": name,
                "step": np.repeat(series.step, len(sites)),
                "site": np.tile(np.array(sites, dtype=object), len(series.step)),
                "value": as_float64(name, series),
            }
            parts.append(pandas.DataFrame(head | columns))
    names = ["study", "arm", "seed", "id", *settings.values(), "series", "step", "site", "value"]
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=names)


def summary_frame(runs: Sequence[StoredRun]) -> Any:
    """Returns a table with one row per run: study, arm, seed, id, status, every setting and every summary number."""
    pandas, rows = import_pandas(), summary_rows(runs)
    frame = pandas.DataFrame(rows)
    for column in frame.columns:  # pandas turns integers into floats where some are missing
        values = [row[column] for row in rows]
        if any(type(value) is int and not is_exact(value) for value in values):
            frame[column] = pandas.Series(values, dtype=object)
    return frame


def import_pandas() -> Any:
    """Returns pandas; raises a KymographError naming the extra if it is not installed."""
    try:
        import pandas
    except ImportError:
        raise KymographError("tables need pandas; install it with `pip install 'kymograph[frame]'`") from None
    return pandas


def import_xarray() -> Any:
    """Returns xarray; raises a KymographError naming the extra if it is not installed."""
    try:
        import xarray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise KymographError("labelled arrays need xarray; install it with `pip install 'kymograph[xarray]'`") from None
    return xarray
