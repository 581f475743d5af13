"""Curves over seeds: the mean, a band around it (by default its 95 % interval), and a thin line for every seed."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from kymograph.figures.spreads import INTERVAL, Spread
from kymograph.figures.style import LabFigure, dot, stroke

COLUMNS = ("panel", "curve", "seed", "x", "value")
_ALPHA = 0.2  # of a band
Bin = Literal["mean", "max"]


def binned(x: np.ndarray, values: np.ndarray, how: Bin, bins: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Returns at most ``bins`` positions on the x axis and ``values`` (seed, x) reduced to them."""
    width = -(-len(x) // bins)
    if width == 1:
        return x, values
    pad = -len(x) % width
    blocks = np.pad(values.astype(np.float64), ((0, 0), (0, pad)), constant_values=np.nan).reshape(
        len(values), -1, width
    )
    positions = np.pad(x.astype(np.float64), (0, pad), constant_values=np.nan).reshape(-1, width)
    with warnings.catch_warnings():  # a bin without any value is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        reduced = np.nanmax(blocks, axis=2) if how == "max" else np.nanmean(blocks, axis=2)
        return np.nanmean(positions, axis=1), reduced


def seed_curves(
    figure: LabFigure,
    axes: Axes,
    panel: str,
    name: str,
    x: np.ndarray,
    values: np.ndarray,
    seeds: tuple,
    colour: str,
    log: bool = False,
    bin_by: Bin = "mean",
    marker: str | None = None,
    spread: Spread = INTERVAL,
) -> None:
    """Draws one arm: thin lines for the seeds, a thick one for their mean, a band for their spread.

    ``values`` is (seed, x); a seed without any value is left out of n. The rows go into the figure's data.
    """
    values = np.where(np.isinf(values), np.nan, values)  # an overflow cannot be drawn
    present = ~np.isnan(values).all(axis=1)
    values, seeds = values[present], tuple(seed for seed, here in zip(seeds, present, strict=True) if here)
    if not len(values):
        axes.plot([], [], color=colour, label=f"{name} (no value)")
        return
    inside = ~np.isnan(values).all(axis=0)
    x, values = binned(x[inside], values[:, inside], bin_by)
    if log and not (values > 0).any():
        axes.plot([], [], color=colour, label=f"{name} (n = {len(seeds)}; exactly 0, not on this scale)")
        _note(figure, panel, name, x, dict(zip(seeds, values, strict=True)))
        return
    shown = np.where(values > 0, values, np.nan) if log else values
    if len(seeds) > 1:
        axes.plot(x, shown.T, color=colour, linewidth=stroke(0.3125), alpha=0.35, rasterized=True)
    mean, low, high = spread.of(values, log)
    axes.plot(
        x, mean, color=colour, linewidth=stroke(), marker=marker, markersize=dot(), label=f"{name} (n = {len(seeds)})"
    )
    if len(seeds) > 1:
        axes.fill_between(x, low, high, color=colour, alpha=_ALPHA, linewidth=0)
    lines = dict(zip(seeds, values, strict=True))
    if len(seeds) > 1:
        lines |= {"mean": mean, "low": low, "high": high}
    _note(figure, panel, name, x, lines)


def name_band(axes: Axes, spread: Spread, log: bool) -> None:
    """Adds to the panel's legend what its bands show; nothing if it has no band, as with one seed."""
    if any(isinstance(one, PolyCollection) for one in axes.collections):
        axes.fill_between([], [], [], color="black", alpha=_ALPHA, linewidth=0, label=spread.label(log))


def _note(figure: LabFigure, panel: str, name: str, x: np.ndarray, lines: dict) -> None:
    for key, line in lines.items():
        figure.note(
            COLUMNS,
            [(panel, name, key, at, value) for at, value in zip(x.tolist(), line.tolist(), strict=True)],
        )
