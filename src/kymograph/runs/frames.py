"""Stored runs as pandas tables, with one row per value or one row per run; imports of the optional packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.run_table import differing_settings, setting_cells, summary_rows
from kymograph.runs.stored import StoredRun


def series_frame(runs: Sequence[StoredRun]) -> Any:
    """Returns a long table of finished runs: one row per run, series, step and site.

    Only settings in which the runs differ are columns; `summary_frame` has all of them.
    """
    pandas = import_pandas()
    settings = differing_settings(runs)
    parts = []
    for run in runs:
        head = {"study": run.study, "arm": run.arm, "seed": run.seed, "id": run.id} | setting_cells(run, settings)
        for name, series in run.series.items():
            sites = series.sites or (None,)
            columns = {
                "series": name,
                "step": np.repeat(series.step, len(sites)),
                "site": np.tile(np.array(sites, dtype=object), len(series.step)),
                "value": series.value.reshape(-1).astype(np.float64),
            }
            parts.append(pandas.DataFrame(head | columns))
    names = ["study", "arm", "seed", "id", *settings.values(), "series", "step", "site", "value"]
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=names)


def summary_frame(runs: Sequence[StoredRun]) -> Any:
    """Returns a table with one row per run: study, arm, seed, id, status, every setting and every summary number."""
    return import_pandas().DataFrame(summary_rows(runs))


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
