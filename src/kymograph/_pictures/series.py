"""What is drawn of a series, on paper and on the page: every seed's curve, means over seeds, moments of training."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kymograph._pictures.scales import LARGEST
from kymograph._probes.quantities import QUANTITIES, QuantityInput
from kymograph._runs.declaration import OVER_DEPTH, Declaration, SeriesDisplay
from kymograph._runs.store import LabelledArray, Store
from kymograph._statistics.intervals import mean_interval

Bin = Literal["mean", "max"]
MOST_UNDECLARED = 40
"""The most series shown for a study that declares none."""
SECONDARY = ("null_", "p_")
"""Prefixes of series that are not shown for a study that declares none: draws of a null, and p-values."""


def displays_of(declaration: Declaration, present: Collection[str], sited: Collection[str]) -> list[SeriesDisplay]:
    """Returns how to show the series that a study declares and has; if it declares none, how to show those it has.

    Args:
        declaration: the study's declaration.
        present: the names of the series that some run has.
        sited: the names of those with a value per site.
    """
    if declaration.series:
        return [display for display in declaration.series if display.series in present]
    quantities = {name.replace("-", "_"): part.properties for name, part in QUANTITIES.parts().items()}
    shown = [name for name in present if not name.startswith(SECONDARY)]
    shown.sort(key=lambda name: (quantities.get(name, {}).get("order", -1), name))
    displays = []
    for name in shown[:MOST_UNDECLARED]:
        words, properties = name.replace("_", " "), quantities.get(name, {})
        point = f" ({properties['point']})" if "point" in properties else ""
        displays.append(
            SeriesDisplay(
                name,
                title=str(properties.get("about", words)) + point,
                unit=words,
                log=properties.get("log"),
                forms=OVER_DEPTH if name in sited else ("curves",),
                options={"sites": "layer"} if properties else {},
            )
        )
    return displays


def stored_displays(store: Store, declaration: Declaration) -> list[SeriesDisplay]:
    """Returns how the series of stored runs are shown: as the study declares, or each under its own name."""
    stored = {name: series for run in store.finished for name, series in run.series.items()}
    return displays_of(declaration, stored, [name for name, series in stored.items() if series.sites is not None])


def sited_series(
    store: Store, declaration: Declaration, series: str | None = None
) -> list[tuple[SeriesDisplay, LabelledArray]]:
    """Returns the stored series that have a value per site, each with its display; only ``series`` if it is named."""
    displays = [display for display in stored_displays(store, declaration) if series in (None, display.series)]
    arrays = [(display, store.series(display.series)) for display in displays]
    return [(display, array) for display, array in arrays if "site" in array.labels]


def never_ran(store: Store, array: LabelledArray) -> set[str]:
    """Returns the sites of a series that ran in no arm: without a value here and in every series of outputs.

    A layer that ran without a gradient has outputs, and weights have norms whether or not their layer runs; so only
    the outputs tell. A site that no series of outputs has is not known not to have run. The outputs of one run of each
    arm are read, and only if some site of ``array`` has no value.
    """
    empty = np.isnan(array.values).all(axis=(0, 1, 2))  # (site,)
    silent = {site for site, none in zip(array.labels["site"], empty, strict=True) if none}
    if not silent or empty.all():  # a run that diverged at once tells nothing about its layers
        return set()
    outputs = {name.replace("-", "_") for name, part in QUANTITIES.parts().items()
               if part.properties.get("at") == QuantityInput.OUTPUT.value}  # fmt: skip
    seen: set[str] = set()
    measured: set[str] = set()
    for run in {run.arm: run for run in reversed(store.finished.runs)}.values():
        for series in (run.series[name] for name in outputs & set(run.series)):
            for site, values in zip(series.sites or (), series.value.T, strict=True):
                seen.add(site)
                if not np.isnan(values).all():
                    measured.add(site)
    return silent & seen - measured


class CellState(enum.IntEnum):
    """What a cell of a kymograph shows."""

    VALUE = 0
    ZERO = 1  # every seed that measured it measured exactly 0
    MISSING = 2  # no seed has a value: not measured, no gradient, or not finite
    ABSENT = 3  # the arm has no such site

    @property
    def label(self) -> str:
        """What a legend calls the state."""
        return ("value", "exactly 0", "not measured, not finite, or no gradient", "no such layer")[self]


def cell_states(values: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Returns the `CellState` of every cell, (step, site).

    Args:
        values: one arm's drawable values, (seed, step, site).
        exists: which sites the arm has, (site,).
    """
    measured = ~np.isnan(values)
    states = np.full(values.shape[1:], CellState.VALUE, dtype=np.int8)
    states[~measured.any(axis=0)] = CellState.MISSING
    states[measured.any(axis=0) & ((values == 0) | ~measured).all(axis=0)] = CellState.ZERO
    states[:, ~exists] = CellState.ABSENT
    return states


@dataclass(frozen=True)
class SeedCurves:
    """The curves of one arm's seeds, without seeds and positions that have no value."""

    seeds: tuple[Any, ...]
    x: np.ndarray
    values: np.ndarray
    """Shape (seed, x)."""
    width: int
    """How many steps one point covers."""

    def shown(self, log: bool) -> np.ndarray:
        """Returns the values that the scale can show, (seed, x): on a log scale only the positive ones."""
        return np.where(self.values > 0, self.values, np.nan) if log else self.values

    def ends(self, log: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the smallest and the largest shown value at every x; NaN where there is none."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmin(self.shown(log), axis=0), np.nanmax(self.shown(log), axis=0)


def thinned_curves(
    x: np.ndarray, values: np.ndarray, seeds: Sequence[Any], how: Bin = "mean", bins: int | None = None
) -> SeedCurves:
    """Returns the curves of ``values`` (seed, x), reduced to at most ``bins`` points; None: all are kept."""
    present = ~np.isnan(values).all(axis=1)
    values = values[present]
    inside = ~np.isnan(values).all(axis=0)
    x, values = x[inside], values[:, inside]
    kept = tuple(seed for seed, here in zip(seeds, present, strict=True) if here)
    if bins is None:
        return SeedCurves(kept, x, values, 1)
    return SeedCurves(kept, *binned(x, values, how, bins), bin_width(len(x), bins))


def bin_width(points: int, bins: int) -> int:
    """Returns how many neighbouring points share a bin if there may be at most ``bins``."""
    return max(1, -(-points // bins))


def binned(x: np.ndarray, values: np.ndarray, how: Bin, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns at most ``bins`` positions on the x axis and ``values`` (row, x) reduced to them."""
    width = bin_width(len(x), bins)
    if width == 1:
        return x, values
    pad = -len(x) % width
    blocks = np.pad(values.astype(np.float64), ((0, 0), (0, pad)), constant_values=np.nan)
    positions = np.pad(x.astype(np.float64), (0, pad), constant_values=np.nan).reshape(-1, width)
    with warnings.catch_warnings():  # a bin without any value is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        reduce = np.nanmax if how == "max" else np.nanmean
        return np.nanmean(positions, axis=1), reduce(blocks.reshape(len(values), -1, width), axis=2)


def mean_over_seeds(values: np.ndarray, geometric: bool) -> np.ndarray:
    """Returns the mean over seeds, (step, site), of ``values`` (seed, step, site)."""
    return mean_interval(values.reshape(len(values), -1), geometric)[0].reshape(values.shape[1:])


def count_seeds(values: np.ndarray) -> int:
    """Returns how many seeds of ``values`` (seed, step, site) have any value."""
    return int((~np.isnan(values)).any(axis=(1, 2)).sum())


def measured_steps(values: np.ndarray) -> np.ndarray:
    """Returns the indices of the steps at which some seed and site has a value; ``values`` is (seed, step, site)."""
    return np.flatnonzero((~np.isnan(values)).any(axis=(0, 2)))


def values_at(array: LabelledArray, share: float) -> np.ndarray:
    """Returns the values (arm, seed, site) of an array (arm, seed, step, site) after a ``share`` of training.

    Each arm has its own first and last step with a value.
    """
    values = np.full((array.shape[0], array.shape[1], array.shape[3]), np.nan)
    for index, arm in enumerate(array.values):
        steps = measured_steps(arm)
        if len(steps):
            values[index] = arm[:, steps[round(share * (len(steps) - 1))]]
    return values


def step_positions(array: LabelledArray) -> np.ndarray:
    """Returns the steps of an array as positions on an axis, (step,), in float64 and within what can be drawn."""
    return np.clip(np.array(array.labels["step"], dtype=np.float64), -LARGEST, LARGEST)


def are_whole(positions: np.ndarray) -> bool:
    """Returns whether all positions are whole numbers, so that an axis counts."""
    return bool((positions == np.round(positions)).all())


def span(low: float, high: float) -> tuple[float, float]:
    """Returns the ends of an axis from ``low`` to ``high``; the axis of a single position has the length one.

    >>> span(0.1, 0.5), span(3.0, 3.0)
    ((0.1, 0.5), (3.0, 4.0))
    """
    if low < high:
        return low, high
    return low, max(low + 1.0, low + 1e-9 * abs(low))  # among numbers so large that adding one changes nothing


def cell_edges(centres: np.ndarray) -> np.ndarray:
    """Returns the edges of cells around ``centres``; without a distance between any two, cells share a width of one."""
    if centres[0] == centres[-1]:
        low, high = span(centres[0], centres[-1])
        return np.linspace((3 * low - high) / 2, (low + high) / 2, len(centres) + 1)
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])
