"""A run's network over training as plain data: the maps of a kymograph, each cell one letter."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph._errors import KymographError
from kymograph._pictures.arrangement import DepthMap, arrange
from kymograph._pictures.report_page.svg import Scale, scale_over
from kymograph._pictures.scales import colour_values, drawable, flushed, is_log_colour
from kymograph._pictures.series import (
    CellState,
    binned,
    cell_states,
    displays_of,
    measured_steps,
    never_ran,
    step_positions,
)
from kymograph._runs.declaration import Declaration, SeriesDisplay
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun

LEVELS = "0123456789abcdefghijklmnopqrstuv"
"""A letter per colour, from the lowest."""
ZERO, MISSING = ".", " "
COLUMNS = 60
"""The most cells along training."""


@dataclass(frozen=True)
class NetworkMap:
    """One map: the stream through the network, a family of layers, or the layers without relatives."""

    map: DepthMap
    rows: tuple[str, ...]
    """Per site, a letter per cell: one of `LEVELS`, `ZERO` or `MISSING`."""
    ends: tuple[tuple[float | None, float | None], ...]
    """Per site, its first and last value."""
    low: float
    high: float
    log: bool
    signed: bool
    """Whether the scale is symmetric around 0."""


@dataclass(frozen=True)
class TracedNetwork:
    """One series along depth of one run."""

    series: str
    arm: str
    seed: int
    first_step: float
    last_step: float
    maps: tuple[NetworkMap, ...]
    left_out: tuple[str, ...]
    """Layers that never ran."""


@functools.lru_cache(maxsize=64)
def trace_network(run: StoredRun, declared: tuple[tuple[str, bool | None], ...]) -> TracedNetwork | None:
    """Returns the first series along depth that a run has, thinned to `COLUMNS` columns; None if it has none.

    Args:
        run: a finished run.
        declared: the series that the study shows as kymographs, and whether on a log scale; empty: it declares none.
    """
    try:
        store = Store([run])
        names = dict(declared) or _undeclared(run)
        for name, log in names.items():
            series = run.series.get(name)
            if series is not None and len(series.sites or ()) > 1 and len(series.step) > 1:
                return _traced(store, run, name, SeriesDisplay(name, name, name, log=log))
        return None
    except KymographError:
        return None  # it was damaged after it had been read
    finally:
        run.__dict__.pop("series", None)  # a run's series are megabytes


def declared_maps(declaration: Declaration) -> tuple[tuple[str, bool | None], ...]:
    """Returns the series that a study shows as kymographs, and whether on a log scale."""
    return tuple((each.series, each.log) for each in declaration.series if "kymograph" in each.forms)


def _undeclared(run: StoredRun) -> dict[str, bool | None]:
    sited = [name for name, series in run.series.items() if series.sites is not None]
    return {display.series: display.log for display in displays_of(Declaration(""), sited, sited)}


def _traced(store: Store, run: StoredRun, name: str, display: SeriesDisplay) -> TracedNetwork | None:
    array = store.series(name)
    values = drawable(flushed(array.values))[0, :1]  # (1, step, site)
    steps = measured_steps(values)
    found = arrange(array.sites_of, never_ran(store, array))
    if len(steps) < 2 or not found:
        return None
    log = is_log_colour(display, values)
    x, thin = binned(step_positions(array)[steps], values[0, steps].T, "mean", COLUMNS)  # (site, column)
    row_of = {site: row for row, site in enumerate(array.labels["site"])}
    maps = [_network_map(each, thin[[row_of[site] for site in each.sites]], log) for each in found[0].maps]
    return TracedNetwork(name, run.arm, run.seed, float(x[0]), float(x[-1]), tuple(maps), found[0].left_out)


def _network_map(drawn: DepthMap, values: np.ndarray, log: bool) -> NetworkMap:
    """Returns a map of ``values`` (site, column)."""
    deciding = colour_values([values.T], log)
    signed = bool(not log and len(deciding) and deciding.min() < 0)
    largest = float(np.abs(deciding).max(initial=0.0))
    scale = Scale(-largest, largest, 0, 1) if signed else scale_over(deciding, 0, 1, log, pad=0)
    shares = np.nan_to_num(np.clip(scale(values), 0, 1))
    states = cell_states(values.T[None], np.ones(len(values), dtype=bool)).T
    letters = np.array(list(LEVELS))[np.rint(shares * (len(LEVELS) - 1)).astype(int)]
    letters[states == CellState.MISSING] = MISSING
    if log:
        letters[states == CellState.ZERO] = ZERO
    return NetworkMap(
        drawn,
        tuple("".join(row) for row in letters.tolist()),
        tuple(_ends(row) for row in values.tolist()),
        scale.low,
        scale.high,
        log,
        signed,
    )


def _ends(values: Sequence[float]) -> tuple[float | None, float | None]:
    finite = [value for value in values if math.isfinite(value)]
    return (finite[0], finite[-1]) if finite else (None, None)
