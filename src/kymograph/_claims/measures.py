"""One number of one run: a key of its summary, or a series reduced to a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from kymograph._claims.claim import Measure
from kymograph._errors import KymographError, did_you_mean
from kymograph._runs.record import RunSeries
from kymograph._runs.thin_run import ThinRun

_REDUCE: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "95th percentile": lambda values: np.quantile(values, 0.95),
    "min": np.min,
    "max": np.max,
    "std": np.std,
}


class Run(Protocol):
    """What the judge needs from a run, stored or imported."""

    @property
    def arm(self) -> str:
        """The condition."""

    @property
    def seed(self) -> int:
        """The replication."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """One number per key."""

    @property
    def series(self) -> Mapping[str, RunSeries]:
        """The trajectories."""


def measure(run: Run, what: Measure) -> float:
    """Returns a run's number; NaN if its value is missing; raises if the run has no such key, series or site."""
    if what.reduce is None:
        if what.name not in run.summary:
            raise KymographError(f"a run has no summary {what.name!r}{did_you_mean(what.name, run.summary)}")
        value = run.summary[what.name]
        if isinstance(value, str):
            raise KymographError(f"the summary {what.name!r} is a string, not a number")
        if value is not None and not isinstance(value, int | float):
            raise KymographError(f"the summary {what.name!r} is not a number")
        return math.nan if value is None else float(value)
    if isinstance(run, ThinRun) and (reduction := (what.name, what.reduce, what.site)) in run.reductions:
        return run.reductions[reduction]
    if what.name not in run.series:
        raise KymographError(f"a run has no series {what.name!r}{did_you_mean(what.name, run.series)}")
    series = run.series[what.name]
    values = np.asarray(series.value, dtype=np.float64)
    if what.reduce == "depth slope":
        return _depth_slope(values, what)
    if series.sites is not None:
        if what.site is None:
            raise KymographError(f"the series {what.name!r} has sites {', '.join(series.sites[:6])}; name one of them")
        if what.site == "last":
            return reduce(values[:, -1], what.reduce)
        if what.site not in series.sites:
            raise KymographError(f"{what.name!r} has no site {what.site!r}{did_you_mean(what.site, series.sites)}")
        values = values[:, series.sites.index(what.site)]
    return reduce(values, what.reduce)


def reduce(values: np.ndarray, how: str) -> float:
    """Returns a trajectory (steps,) reduced to one number; NaN if it is empty, or if a value that counts is missing.

    ``growth`` is the last value over the first, ``rises`` the share of measurements that exceed the one before, and
    ``least ratio`` the smallest ratio of a measurement to the one before.
    """
    if len(values) == 0:
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if how in ("rises", "least ratio"):
            if len(values) < 2 or np.isnan(values).any():
                return math.nan
            return float(np.mean(np.diff(values) > 0) if how == "rises" else (values[1:] / values[:-1]).min())
        simple = {"last": values[-1], "first": values[0], "growth": values[-1] / values[0]}
        if how in simple:
            return float(simple[how])
        return float(_REDUCE[how](values))


def _depth_slope(values: np.ndarray, what: Measure) -> float:
    """Returns the slope of log(value) over the sites at the last step: the log of the gain per site."""
    if values.ndim != 2:
        raise KymographError(f"the series {what.name!r} has no sites, so it has no slope over depth")
    last = values[-1]
    if not (last > 0).all():
        return math.nan
    return float(np.polyfit(np.arange(len(last)), np.log(last), 1)[0])
