"""The kymograph: depth down one axis, training time along the other, colour the measured quantity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator

from kymograph._errors import KymographError
from kymograph._pictures.canvas import MISSING, LabFigure, set_log_ticks, sheet, styled
from kymograph._pictures.scales import MAP, SIGNED_MAP, colour_values, drawable, geometric_means, is_log_colour
from kymograph._pictures.series import are_whole, cell_edges, count_seeds, mean_over_seeds, sited_series, step_positions
from kymograph._pictures.styles import current_style, literal, mathtext
from kymograph._runs.declaration import Declaration
from kymograph._runs.store import LabelledArray, Store

PARTS = {
    "kymograph": {
        "attribute": "draw_kymographs",
        "about": "a series over depth and training time, a panel per arm",
        "order": 2,
        "of": "series",
    },
}

MOST_NAMES = 16
"""Up to this many sites are labelled by name, more by number."""


@styled
def draw_kymographs(store: Store, declaration: Declaration, series: str | None = None) -> LabFigure:
    """Draws the series (default: the first that has a value per site): sites down, training to the right.

    The label of the site axis comes from the display's ``options["sites"]``.
    """
    sited = [
        (display, array)
        for display, array in sited_series(store, declaration, series)
        if "kymograph" in display.forms and len(array.labels["step"]) > 1
    ]
    if not sited:
        raise KymographError(f"{declaration.name} has no series with several sites and steps, which a kymograph needs")
    several = [pair for pair in sited if len(pair[1].labels["site"]) > 1]  # one site is a curve, not a map
    display, array = (several or sited)[0]
    log = is_log_colour(display, array.values)
    sites = str(display.options.get("sites", "site"))
    return kymograph(
        array, display.title, display.unit, declaration.time, sites=sites, log=log, labels=declaration.labels
    )


@styled
def kymograph(
    array: LabelledArray,
    title: str,
    quantity: str,
    time: str = "training step",
    *,
    sites: str = "site",
    log: bool = True,
    labels: Mapping[str, str] | None = None,
) -> LabFigure:
    """Draws a quantity with axes (arm, seed, step, site): one panel per arm, one colour scale for all.

    Colour is the geometric mean over seeds, on a log scale; it is grey where no seed has a positive value. If in
    some cell only some seeds are exactly 0, all means are arithmetic, so that every seed counts. Without ``log``
    the mean is arithmetic and the scale linear, diverging around 0 if some means are negative.

    Args:
        array: the quantity.
        title: the title of the whole figure.
        quantity: the label of the colour bar, to which the kind of mean is added.
        time: the label of the horizontal axis.
        sites: the label of the vertical axis.
        log: whether colour is on a log scale.
        labels: the arms' labels; default: their names.

    The colour range excludes the first step if that step would stretch it considerably; the colour bar then has pointed
    ends.
    """
    arms, names = array.labels["arm"], array.labels["site"]
    geometric = geometric_means(array.values, log, axis=1)
    columns_of_data = ("arm", "step", "site", "geometric_mean" if geometric else "mean")
    steps = step_positions(array)
    panels, counts = [], []
    for values in map(drawable, array.values):  # (seed, step, site)
        counts.append(count_seeds(values))
        means = mean_over_seeds(values, geometric)
        panels.append(np.where(means > 0, means, np.nan) if log else means)
    norm, colours = _colours(colour_values(panels, log), log)
    extend = _extend(np.concatenate([panel[np.isfinite(panel)] for panel in panels]), norm)
    quantity += f"\n({'geometric mean' if geometric else 'mean'} over seeds)"

    columns = 2 if len(arms) in (2, 4) else min(len(arms), 3)
    if current_style().landscape:
        columns = max(columns, round(np.sqrt(1.3 * len(arms))))
    columns = current_style().columns(columns, least=1.6)
    rows = -(-len(arms) // columns)
    figure = sheet((3.2, 2.6), rows, columns, frame=(1.0, 0.5))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    mesh = None
    for axes in grid.flat[len(arms) :]:
        axes.set_visible(False)
    for axes, arm, panel, count in zip(grid.flat, arms, panels, counts, strict=False):
        axes.set_facecolor(MISSING)
        axes.grid(False)
        here = ~np.isnan(panel).all(axis=1)
        if here.any():
            mesh = axes.pcolormesh(
                cell_edges(steps[here]),
                np.arange(len(names) + 1) - 0.5,
                np.ma.masked_invalid(panel[here]).T,
                norm=norm,
                cmap=colours,
                rasterized=True,
            )
        else:
            axes.text(
                0.5, 0.5, "no positive value" if log else "no value", transform=axes.transAxes, ha="center", va="center"
            )
        axes.set_title(f"{literal((labels or {}).get(arm, arm))} (n = {count})")
        axes.set_ylim(len(names) - 0.5, -0.5)  # depth runs down
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=are_whole(steps), steps=[1, 2, 2.5, 5, 10]))
        figure.note(
            columns_of_data,
            [
                (arm, step, site, value)
                for step, row in zip(array.labels["step"], panel.tolist(), strict=True)
                for site, value in zip(names, row, strict=True)
            ],
        )
    for axes in grid[:, 0]:
        axes.set_ylabel(mathtext(sites))
        if len(names) <= MOST_NAMES:
            axes.set_yticks(range(len(names)), [mathtext(str(name)) for name in names])
        else:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))  # sites have whole numbers
    for column in range(columns):
        last = max(row for row in range(rows) if row * columns + column < len(arms))
        grid[last, column].set_xlabel(literal(time))
        grid[last, column].tick_params(labelbottom=True)
    if mesh is not None:
        bar = figure.colorbar(
            mesh,
            ax=grid.ravel().tolist(),
            label=mathtext(quantity),
            extend=extend,
            aspect=20 if rows <= 2 else 10 * rows,
        )
        if isinstance(mesh.norm, LogNorm):
            set_log_ticks(bar.ax.yaxis)
    figure.entitle(title)
    return figure


def _colours(means: np.ndarray, log: bool) -> tuple[Normalize, str]:
    """Returns the common colour scale of all panels, given their finite means, and the name of its colour map."""
    if not len(means):
        return LogNorm(0.1, 1.0) if log else Normalize(0.0, 1.0), MAP
    low, high = means.min(), means.max()
    if log:
        return LogNorm(low, high if high > low else low * 1.01), MAP
    if low >= 0:
        return Normalize(low, high if high > low else low + 1.0), MAP
    largest = max(-low, high)
    return Normalize(-largest, largest), SIGNED_MAP


def _extend(means: np.ndarray, norm: Normalize) -> Literal["neither", "both", "min", "max"]:
    """Returns the ends of the colour bar beyond which there are values."""
    if not len(means) or norm.vmin is None or norm.vmax is None:
        return "neither"
    below, above = bool(means.min() < norm.vmin), bool(means.max() > norm.vmax)
    return "both" if below and above else "min" if below else "max" if above else "neither"
