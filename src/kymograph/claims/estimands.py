"""Which numbers a claim compares: one per run, from its summary or a reduced series, within known bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.verdict import Point
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.declaration import bounds_of
from kymograph.runs.record import RunSeries
from kymograph.runs.store import Store
from kymograph.statistics.p_values import LEAST_SEEDS, max_t

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
        ...

    @property
    def seed(self) -> int:
        """The replication."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings."""
        ...

    @property
    def summary(self) -> Mapping[str, Any]:
        """One number per key."""
        ...

    @property
    def series(self) -> Mapping[str, RunSeries]:
        """The trajectories."""
        ...


def measure(run: Run, what: Measure) -> float:
    """Returns a run's number; NaN if its value is missing; raises if the run has no such key, series or site."""
    if what.reduce is None:
        if what.name not in run.summary:
            raise KymographError(f"a run has no summary {what.name!r}{did_you_mean(what.name, run.summary)}")
        value = run.summary[what.name]
        if isinstance(value, str):
            named = {"Infinity": math.inf, "-Infinity": -math.inf}  # how a record's JSON spells them
            if value not in named:
                raise KymographError(f"the summary {what.name!r} is a string, not a number")
            return named[value]
        if value is not None and not isinstance(value, int | float):
            raise KymographError(f"the summary {what.name!r} is not a number")
        return math.nan if value is None else float(value)
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


Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)
_INSIDE = (None, "last", "first", "mean", "median", "95th percentile", "min", "max")
"""Reductions of a series whose result lies among its values."""


def effect_bounds(claim: Claim, points: Sequence[Point], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the smallest and the largest possible effect; infinite where there is no limit.

    A difference of two accuracies lies in [-1, 1], an accuracy's difference from 0.1 in [-0.1, 0.9]. ``declared``
    holds the ranges that the study states; those of accuracies, probabilities and cosines are recognised by name.
    """
    columns = list(zip(*(point.parts or (point.left, point.right) for point in points), strict=True))
    sides = (claim.left, claim.right, *(claim.interaction or ()))
    ranges = [
        measure_bounds(side.measure, values, declared) if isinstance(side, Side) else (float(side), float(side))
        for side, values in zip(sides, columns, strict=True)
    ]
    compared = _ratio if claim.scale == "log ratio" else _difference
    effect = compared(ranges[0], ranges[1])
    return compared(effect, compared(ranges[2], ranges[3])) if claim.interaction is not None else effect


def measure_bounds(measure: Measure, values: Sequence[float], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the range that a measure cannot leave, given its values."""
    if measure.reduce == "rises":  # a share of measurements
        return 0.0, 1.0
    if measure.reduce not in _INSIDE:
        return EVERYTHING
    return bounds_of(measure.name, values, declared) or EVERYTHING


def _difference(left: Range, right: Range) -> Range:
    return left[0] - right[1], left[1] - right[0]


def _ratio(left: Range, right: Range) -> Range:
    """Returns the range of a ratio; numbers compared as a ratio are positive in every seed."""
    return max(left[0], 0.0) / right[1], left[1] / right[0] if right[0] > 0 else math.inf


@dataclass(frozen=True)
class DifferenceMap:
    """Mean differences over seeds at every step (and site), and their p-values, adjusted over the whole map."""

    effect: np.ndarray  # (step,) or (step, site): mean of left - right, or of log left - log right
    p: np.ndarray
    """Two-sided, by the largest |t| of the map under joint sign flips of seeds; NaN where nothing could be compared."""
    steps: tuple[int, ...]
    sites: tuple[str, ...] | None
    seeds: tuple[int, ...]

    def first(self, alpha: float = 0.05) -> int | None:
        """Returns the first step at which the arms differ at any site; None if they never do."""
        rows = self.p.reshape(len(self.steps), -1)
        found = [step for step, row in zip(self.steps, rows, strict=True) if (row <= alpha).any()]
        return found[0] if found else None


def difference_map(store: Store, series: str, left: str, right: str, log: bool = False) -> DifferenceMap:
    """Compares a series of two arms at every step and site, paired by seed.

    Args:
        store: the runs; one setting per arm.
        series: the series' name.
        left, right: the arms.
        log: whether to compare logarithms, as is usual for norms and losses.
    """
    array = store.finished.select(arms=[left, right]).series(series)
    one, other = (np.asarray(array.sel(arm=arm).values, dtype=np.float64) for arm in (left, right))
    whole = [index for index in range(len(one)) if not (np.isnan(one[index]).all() or np.isnan(other[index]).all())]
    if len(whole) < LEAST_SEEDS:
        raise KymographError(f"{len(whole)} seeds have both arms, but a map needs at least {LEAST_SEEDS}")
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = (np.log(one) - np.log(other) if log else one - other)[whole]
    differences[~np.isfinite(differences)] = np.nan
    table = differences.reshape(len(whole), -1)
    p = max_t(table).reshape(differences.shape[1:])
    sites = array.labels.get("site")
    return DifferenceMap(
        differences.mean(0), p, tuple(array.labels["step"]), None if sites is None else tuple(sites),
        tuple(array.labels["seed"][index] for index in whole),
    )  # fmt: skip
