"""Curves over seeds: the mean, a band around it, and a thin line per seed, or the range of very many seeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from kymograph.figures.mathematics import literal
from kymograph.figures.scales import drawable, geometric_means
from kymograph.figures.spreads import INTERVAL, Spread
from kymograph.figures.style import LabFigure, dot, stroke

COLUMNS = ("panel", "curve", "seed", "x", "value")
SITED_COLUMNS = ("panel", "curve", "seed", "x", "site", "value")
"""For curves along depth: ``x`` is a position, and ``site`` is the layer's name."""
_ALPHA = 0.2  # of a band
Bin = Literal["mean", "max"]
BINS = 250
"""The most points of a curve."""
MOST_LINES = 100
"""The most seeds drawn as single lines; thousands would merge into one surface and take minutes to draw."""


def binned(x: np.ndarray, values: np.ndarray, how: Bin, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
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
    *,
    dash: Sequence[float] = (),
    geometric: bool | None = None,
    sites: Sequence[str] | None = None,
    bins: int = BINS,
    each_seed: bool = True,
    bounds: tuple[float, float] | None = None,
) -> None:
    """Draws one arm: thin lines for the seeds, a thick one for their mean, a band for their spread.

    With more than `MOST_LINES` seeds, their range is shaded instead of the thin lines.

    ``values`` is (seed, x); a seed without any value does not count in n. The rows are added to the figure's data.

    ``geometric`` selects the geometric mean and should be the same for all arms of a panel; by default the mean is
    geometric on a log axis, unless only some seeds are 0 at some x. ``sites`` names the positions of curves along
    depth. A long curve is thinned to ``bins`` points. Without ``each_seed`` single seeds are not drawn, e.g. because
    they are all spikes. Bands stay within ``bounds``.
    """
    line: Any = (0, tuple(dash)) if dash else "-"
    values = drawable(values)
    present = ~np.isnan(values).all(axis=1)
    values, seeds = values[present], tuple(seed for seed, here in zip(seeds, present, strict=True) if here)
    if not len(values):
        axes.plot([], [], color=colour, linestyle=line, label=f"{literal(name)} (no value)")
        return
    inside = ~np.isnan(values).all(axis=0)
    names = None if sites is None else {position: str(sites[int(position)]) for position in x[inside].tolist()}
    if names is None:
        x, values = binned(x[inside], values[:, inside], bin_by, bins)
    else:
        x, values = x[inside], values[:, inside]
    if log and not (values > 0).any():
        label = f"{literal(name)} (n = {len(seeds)}; exactly 0, not on this scale)"
        axes.plot([], [], color=colour, linestyle=line, label=label)
        _note(figure, panel, name, x, dict(zip(seeds, values, strict=True)), names)
        return
    shown = np.where(values > 0, values, np.nan) if log else values
    if len(seeds) > MOST_LINES:
        with warnings.catch_warnings():  # a step without any value has no range
            warnings.simplefilter("ignore", RuntimeWarning)
            lowest, highest = np.nanmin(shown, axis=0), np.nanmax(shown, axis=0)
        axes.fill_between(x, lowest, highest, color=colour, alpha=0.12, linewidth=0)
    elif len(seeds) > 1 and each_seed:
        # One collection, not one line each: in a PDF or SVG, the renderer would switch to pixels and back for each.
        paths = np.stack([np.broadcast_to(x, shown.shape), shown], axis=2)  # (seed, x, 2)
        thin = LineCollection(list(paths), colors=colour, linewidths=stroke(0.3125), alpha=_seed_alpha(len(seeds)),
                              rasterized=True, zorder=1.8)  # fmt: skip
        axes.add_collection(thin, autolim=False)
        axes.update_datalim(paths[np.isfinite(shown)])
    mean, low, high = spread.of(values, geometric_means(values, log) if geometric is None else geometric)
    low, high = drawable(low), drawable(high)
    if bounds is not None:
        low, high = np.clip(low, *bounds), np.clip(high, *bounds)
    drawn = np.where(mean > 0, mean, np.nan) if log else mean
    axes.plot(x, drawn, color=colour, linewidth=stroke(), marker=marker, markersize=dot(), zorder=2.5,
              linestyle=line, label=f"{literal(name)} (n = {len(seeds)})")  # fmt: skip
    if len(seeds) > 1:
        axes.fill_between(x, low, high, color=colour, alpha=_ALPHA, linewidth=0, zorder=1.9)
    lines = dict(zip(seeds, values, strict=True))
    if len(seeds) > 1:
        lines |= {"mean": mean, "low": low, "high": high}
    _note(figure, panel, name, x, lines, names)


def _seed_alpha(seeds: int) -> float:
    """Returns the opacity of one seed's line: the more seeds, the fainter, so that they do not hide the means."""
    return min(0.35, max(0.08, 1.4 / seeds))


def name_bands(panels: Iterable[Axes], spread: Spread = INTERVAL) -> None:
    """Adds a single legend entry that explains the bands of several panels; none if no panel has a band."""
    banded = [axes for axes in panels if any(isinstance(one, PolyCollection) for one in axes.collections)]
    if banded:
        label = spread.label_of_all(axes.get_yscale() == "log" for axes in banded)
        banded[-1].fill_between([], [], [], color="black", alpha=_ALPHA, linewidth=0, label=label)


def name_band(axes: Axes, spread: Spread, log: bool) -> None:
    """Adds a legend entry that explains the panel's bands; none if it has no band, as with one seed."""
    if any(isinstance(one, PolyCollection) for one in axes.collections):
        axes.fill_between([], [], [], color="black", alpha=_ALPHA, linewidth=0, label=spread.label(log))


def _note(
    figure: LabFigure, panel: str, name: str, x: np.ndarray, lines: dict, sites: Mapping[float, str] | None = None
) -> None:
    for key, line in lines.items():
        points = list(zip(x.tolist(), line.tolist(), strict=True))
        if sites is None:
            figure.note(COLUMNS, [(panel, name, key, at, value) for at, value in points])
        else:
            figure.note(SITED_COLUMNS, [(panel, name, key, at, sites[at], value) for at, value in points])
