"""The kymograph: depth down one axis, training time along the other, colour the measured quantity.

Few sites are one map, with a panel per arm. A network of many has a map of its stream, a strip for every family of
sites and a list of the others, each with a colour scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator

from kymograph._errors import KymographError
from kymograph._pictures.arrangement import MOST_NAMES, Arrangement, DepthMap, arrange
from kymograph._pictures.canvas import MISSING, LabFigure, legend_below, set_log_ticks, sheet, styled, wrap_label
from kymograph._pictures.scales import MAP, SIGNED_MAP, colour_values, drawable, geometric_means, is_log_colour
from kymograph._pictures.series import (
    CellState,
    are_whole,
    cell_edges,
    cell_states,
    count_seeds,
    mean_over_seeds,
    never_ran,
    sited_series,
    step_positions,
)
from kymograph._pictures.stacked import NAME, Box, StackBlock, fitting, most_columns, notes_on, scaled, small, stacked
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

ZERO = "#D55E00"
"""The colour of exactly 0 on a log scale: vermilion, which is not in the map, also for colour-blind readers."""
_HATCH = "////"  # of a layer that an arm does not have


@styled
def draw_kymographs(
    store: Store,
    declaration: Declaration,
    series: str | None = None,
    *,
    family: str | None = None,
    all_sites: bool = False,
) -> LabFigure:
    """Draws the series (default: the first that has a value per site): sites down, training to the right.

    The label of the site axis comes from the display's ``options["sites"]``. Layers that never ran are left out.
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
    return kymograph(
        array,
        display.title,
        display.unit,
        declaration.time,
        sites=str(display.options.get("sites", "site")),
        log=is_log_colour(display, array.values),
        labels=declaration.labels,
        without_value=never_ran(store, array),
        family=family,
        all_sites=all_sites,
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
    without_value: Collection[str] = (),
    family: str | None = None,
    all_sites: bool = False,
) -> LabFigure:
    """Draws a quantity with axes (arm, seed, step, site): a panel per arm and map, and a colour scale per map.

    Colour is the geometric mean over seeds, on a log scale. If in some cell only some seeds are exactly 0, all means
    are arithmetic, so that every seed counts. Without ``log`` the mean is arithmetic and the scale linear, diverging
    around 0 if some means are negative. Cells that have no colour are of three kinds, each with its look and an entry
    in the legend: all seeds measured exactly 0 (on a log scale), no seed has a value, the arm has no such site.

    Args:
        array: the quantity.
        title: the title of the whole figure.
        quantity: the label of the colour bar, to which the kind of mean is added.
        time: the label of the horizontal axis.
        sites: the label of the vertical axis.
        log: whether colour is on a log scale.
        labels: the arms' labels; default: their names.
        without_value: sites to leave out and to name below the picture.
        family: draw only the sites and families that match this name or pattern.
        all_sites: draw all sites in one map.

    The colour range excludes the first step if that step would stretch it considerably; the colour bar then has pointed
    ends.
    """
    geometric = geometric_means(array.values, log, axis=1)
    names = tuple(map(str, array.labels["site"]))
    arms = [
        _cells(
            arm, (labels or {}).get(arm, arm), values, np.isin(names, array.sites_of.get(arm, names)), log, geometric
        )
        for arm, values in zip(array.labels["arm"], map(drawable, array.values), strict=True)
    ]
    arrangements = arrange(
        {arm.name: array.sites_of.get(arm.name, names) for arm in arms},
        without_value,
        family=family,
        all_sites=all_sites,
    )
    picture = _Picture(
        {arm.name: arm for arm in arms},
        {name: column for column, name in enumerate(names)},
        step_positions(array),
        array.labels["step"],
        title,
        quantity,
        f"{'geometric mean' if geometric else 'mean'} over seeds",
        time,
        sites,
        log,
        ("arm", "step", "site", "geometric_mean" if geometric else "mean", "map", "state"),
    )
    if len(arrangements) == 1 and len(arrangements[0].maps) == 1 and not arrangements[0].left_out:
        return _draw_one(picture, arrangements[0].maps[0])
    return _draw_maps(picture, arrangements)


@dataclass(frozen=True)
class _Cells:
    """One arm's cells: ``means`` over seeds and ``states`` (step, site), and whether a step has any value, (step,)."""

    name: str
    label: str
    means: np.ndarray
    states: np.ndarray
    here: np.ndarray
    seeds: int

    @property
    def title(self) -> str:
        """The title of the arm's panels."""
        return f"{literal(self.label)} (n = {self.seeds})"


def _cells(arm: str, label: str, values: np.ndarray, exists: np.ndarray, log: bool, geometric: bool) -> _Cells:
    """Returns the cells of an arm's ``values`` (seed, step, site), of whose sites it has those that ``exist``."""
    states, means = cell_states(values, exists), mean_over_seeds(values, geometric)
    means = np.where(states == CellState.ZERO, 0.0, means)
    if log:  # no colour, and no value of this scale
        means = np.where(means < 0, np.nan, means)
    measured = (states == CellState.VALUE) | (states == CellState.ZERO)
    return _Cells(arm, label, means, states, measured.any(axis=1), count_seeds(values))


@dataclass(frozen=True)
class _Picture:
    """What is drawn in all maps: the arms' cells, the axis of time, and the texts."""

    arms: Mapping[str, _Cells]
    column_of: Mapping[str, int]
    """The position of every site among the cells."""
    steps: np.ndarray
    step_labels: Sequence[object]
    title: str
    quantity: str
    mean: str
    """Which mean over seeds is drawn."""
    time: str
    sites: str
    log: bool
    columns: tuple[str, ...]
    """Those of the data behind the figure."""

    def of(self, arm: str, sites: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns an arm's means and states at ``sites``, each (step, site)."""
        columns = [self.column_of[site] for site in sites]
        return self.arms[arm].means[:, columns], self.arms[arm].states[:, columns]

    def scale(self, arms: Sequence[str], sites: Sequence[str]) -> _Scale:
        """Returns the colours of ``sites`` in all ``arms``."""
        panels = [self.of(arm, sites)[0] for arm in arms]
        if self.log:
            panels = [np.where(panel > 0, panel, np.nan) for panel in panels]
        norm, colours = _colours(colour_values(panels, self.log), self.log)
        return _Scale(norm, colours, _extend(np.concatenate([panel[np.isfinite(panel)] for panel in panels]), norm))

    def draw(self, figure: LabFigure, axes: Axes, arm: str, drawn: DepthMap, scale: _Scale) -> QuadMesh | None:
        """Draws one map of one arm and notes its data; returns its cells if some have a colour."""
        means, states = self.of(arm, drawn.sites)
        cells = self.arms[arm]
        axes.set_facecolor(MISSING)
        axes.grid(False)
        mesh = None
        if cells.here.any():
            x, y = cell_edges(self.steps[cells.here]), np.arange(len(drawn.sites) + 1) - 0.5
            shown, zero = means[cells.here], self.log & (states[cells.here] == CellState.ZERO)
            coloured = np.ma.masked_where(np.isnan(shown) | zero, shown).T
            drawn_cells = axes.pcolormesh(x, y, coloured, norm=scale.norm, cmap=scale.colours, rasterized=True)
            mesh = drawn_cells if coloured.count() else None
            if zero.any():
                axes.pcolormesh(x, y, np.ma.masked_where(~zero, zero).T, cmap=ListedColormap([ZERO]), rasterized=True)
        else:
            axes.text(0.5, 0.5, "no value", transform=axes.transAxes, ha="center", va="center")
        for first, last in _runs((states == CellState.ABSENT).all(axis=0)):
            axes.axhspan(first - 0.5, last + 0.5, facecolor="white", edgecolor="0.6", hatch=_HATCH, linewidth=0)
        axes.set_ylim(len(drawn.sites) - 0.5, -0.5)  # depth runs down
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=are_whole(self.steps), steps=[1, 2, 2.5, 5, 10]))
        kinds = {state: state.name.lower() for state in CellState}
        figure.note(
            self.columns,
            [
                (arm, step, site, mean, drawn.title, kinds[CellState(state)])
                for step, row, of_row in zip(self.step_labels, means.tolist(), states.tolist(), strict=True)
                for site, mean, state in zip(drawn.sites, row, of_row, strict=True)
            ],
        )
        return mesh

    def legend(self, arrangements: Sequence[Arrangement]) -> list[tuple[Patch, str]]:
        """Returns handle and label of the looks that occur."""
        found: set[int] = set()
        for arrangement in arrangements:
            for arm in arrangement.arms:
                for drawn in arrangement.maps:
                    found |= set(np.unique(self.of(arm, drawn.sites)[1][self.arms[arm].here]).tolist())
        handles = {
            CellState.ZERO: Patch(facecolor=ZERO),
            CellState.MISSING: Patch(facecolor=MISSING),
            CellState.ABSENT: Patch(facecolor="white", edgecolor="0.6", hatch=_HATCH, linewidth=0),
        }
        if not self.log:
            del handles[CellState.ZERO]  # 0 has a colour of the scale
        return [(handle, state.label) for state, handle in handles.items() if state in found]


@dataclass(frozen=True)
class _Scale:
    """The colours of a map, and the ends of its colour bar beyond which there are values."""

    norm: Normalize
    colours: str
    extend: Literal["neither", "both", "min", "max"]


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Returns the first and the last index of every run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(end) - 1) for first, end in edges.reshape(-1, 2)]


def _draw_one(picture: _Picture, drawn: DepthMap) -> LabFigure:
    """Draws a single map, a panel per arm in a grid, all on one colour scale."""
    arms = list(picture.arms)
    scale = picture.scale(arms, drawn.sites)
    many = len(drawn.sites) > MOST_NAMES
    columns = 2 if len(arms) in (2, 4) else min(len(arms), 3)
    if current_style().landscape:
        columns = max(columns, round(np.sqrt(1.3 * len(arms))))
    columns = current_style().columns(columns, least=1.6)
    rows = -(-len(arms) // columns)
    height, longest = 2.6, max(map(len, drawn.labels))
    if many and longest > 4:  # names instead of numbers
        height = max(height, min(NAME * len(drawn.sites), 12.0))
    figure = sheet((3.2, height), rows, columns, frame=(1.0 + (0.065 * longest if many else 0.0), 0.5))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(arms) :]:
        axes.set_visible(False)
    meshes = []
    for axes, arm in zip(grid.flat, arms, strict=False):
        meshes.append(picture.draw(figure, axes, arm, drawn, scale))
        axes.set_title(picture.arms[arm].title)
    labelled = drawn.ticks(int(figure.get_figheight() / rows / scaled(NAME)) if many else MOST_NAMES)
    for axes in grid[:, 0]:
        axes.set_ylabel(mathtext(picture.sites))
        axes.set_yticks(labelled, [mathtext(drawn.labels[row]) for row in labelled])
    for column in range(columns):
        last = max(row for row in range(rows) if row * columns + column < len(arms))
        grid[last, column].set_xlabel(literal(picture.time))
        grid[last, column].tick_params(labelbottom=True)
    mesh = next((mesh for mesh in meshes if mesh is not None), None)
    if mesh is not None:
        bar = figure.colorbar(
            mesh,
            ax=grid.ravel().tolist(),
            label=mathtext(f"{picture.quantity}\n({picture.mean})"),
            extend=scale.extend,
            aspect=(20 if rows <= 2 else 10 * rows) * height / 2.6,
        )
        if isinstance(mesh.norm, LogNorm):
            set_log_ticks(bar.ax.yaxis)
    figure.entitle(f"{picture.title}: {drawn.pattern}" if drawn.title else picture.title)
    entries = picture.legend([Arrangement(tuple(arms), (drawn,), ())])
    if entries:
        legend_below(figure, [handle for handle, _ in entries], [label for _, label in entries])
    return figure


def _draw_maps(picture: _Picture, arrangements: Sequence[Arrangement]) -> LabFigure:
    """Draws the maps of every arrangement below each other, a column per arm, each map with its own colour scale."""
    columns = most_columns(max(len(arrangement.arms) for arrangement in arrangements))
    kind = "log colour scale" if picture.log else "colour scale"
    shared = any(len(arrangement.arms) > 1 for arrangement in arrangements)
    notes = [f"Rows are numbered from the input down. Each map has its own {kind}{', shared by its arms' * shared}."]
    blocks: list[StackBlock] = []
    contents: list[tuple[tuple[str, ...], list[tuple[DepthMap, _Scale]]]] = []
    for arrangement in arrangements:
        maps, rows = fitting(arrangement)
        scaled_maps = [(drawn, picture.scale(arrangement.arms, drawn.sites)) for drawn in maps]
        for first in range(0, len(arrangement.arms), columns):
            arms = arrangement.arms[first : first + columns]
            blocks.append(StackBlock(tuple(picture.arms[arm].title for arm in arms), rows))
            contents.append((arms, scaled_maps))
        notes += notes_on(arrangement, maps)
    stack = stacked(blocks, picture.title, right=0.95, legend=picture.legend(arrangements), notes=notes)
    for panels, boxes, (arms, scaled_maps) in zip(stack.panels, stack.beside, contents, strict=True):
        for (drawn, scale), of_row, box in zip(scaled_maps, panels, boxes, strict=True):
            _draw_row(picture, stack.figure, drawn, scale, dict(zip(arms, of_row, strict=True)), box)
        for axes in panels[-1]:
            axes.set_xlabel(literal(picture.time))
        middle = (panels[0][0].get_position().y1 + panels[-1][0].get_position().y0) / 2
        label = stack.figure.text(1 - scaled(0.05) / stack.figure.get_figwidth(), middle,
                                  mathtext(f"{picture.quantity}\n({picture.mean})"), rotation=90, ha="right",
                                  va="center", multialignment="center")  # fmt: skip
        wrap_label(label, 2 * stack.figure.bbox.height * (panels[0][0].get_position().y1 - middle))
    return stack.figure


def _draw_row(
    picture: _Picture, figure: LabFigure, drawn: DepthMap, scale: _Scale, axes_of: Mapping[str, Axes], beside: Box
) -> None:
    """Draws one map of several arms and its colour bar, in the box ``beside`` them."""
    coloured = None
    edges = [cell_edges(picture.steps[cells.here]) for cells in picture.arms.values() if cells.here.any()]
    for arm, axes in axes_of.items():
        coloured = picture.draw(figure, axes, arm, drawn, scale) or coloured
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        if edges:  # one axis of time for all maps
            axes.set_xlim(min(edge[0] for edge in edges), max(edge[-1] for edge in edges))
    left, bottom, _, height = beside
    tall, inch = height * figure.get_figheight(), 1 / figure.get_figwidth()
    ticks = drawn.ticks(max(1, int(tall / scaled(0.12))))
    next(iter(axes_of.values())).set_yticks(ticks, [mathtext(drawn.labels[row]) for row in ticks])
    if coloured is not None:
        axes = figure.add_axes((left + scaled(0.08) * inch, bottom, scaled(0.1) * inch, height), label="<colorbar>")
        _draw_bar(figure, coloured, axes, scale, most=int(np.clip(tall / scaled(0.24), 2, 5)))


def _draw_bar(figure: LabFigure, mesh: QuadMesh, axes: Axes, scale: _Scale, most: int) -> None:
    """Draws a small colour bar with few ticks."""
    bar = figure.colorbar(mesh, cax=axes, extend=scale.extend)
    low, high = scale.norm.vmin, scale.norm.vmax
    assert low is not None and high is not None
    ticks = few_ticks(low, high, isinstance(scale.norm, LogNorm), most)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.set_ticks(ticks, labels=[_number(tick) for tick in ticks])
    bar.ax.tick_params(labelsize=small(), length=2, pad=2)
    for label, tick in zip(bar.ax.get_yticklabels(), ticks, strict=True):  # clear of the bars above and below
        share = scale.norm(tick)
        label.set_verticalalignment("bottom" if share < 0.12 else "top" if share > 0.88 else "center_baseline")
    bar.outline.set_visible(False)


def few_ticks(low: float, high: float, log: bool, most: int) -> list[float]:
    """Returns two to ``most`` round numbers that span the range from ``low`` to ``high``; one if they are equal.

    These are powers of ten where a log scale has several of them, and else numbers of few digits near both ends.

    >>> few_ticks(3e-5, 0.4, log=True, most=2), few_ticks(88.2, 213.0, log=True, most=2)
    ([0.0001, 0.01], [100.0, 200.0])
    """
    if not low < high:
        return [low]
    if log:
        powers = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
        if len(powers) >= 2:
            return powers[:: -(-len(powers) // most)]
    at = np.log if log else np.asarray
    largest = math.floor(math.log10(max(abs(low), abs(high))))
    for digits in range(6):
        unit = 10.0 ** (largest - digits)
        ends = [math.ceil(low / unit), math.floor(high / unit)]
        if ends[0] < ends[1] and (ends[0] > 0 or not log):
            ticks = [round(end * unit, max(0, digits - largest)) for end in ends]
            if float(np.diff(at(np.array(ticks)))[0]) > 0.75 * float(at(high) - at(low)):
                return ticks if most < 3 else _with_middle(ticks, unit, log)
    return [low, high]


def _with_middle(ends: list[float], unit: float, log: bool) -> list[float]:
    """Returns two ticks and a round number halfway between them on the scale, if there is one."""
    middle = math.sqrt(ends[0] * ends[1]) if log else (ends[0] + ends[1]) / 2
    rounded = float(f"{round(middle / unit) * unit:.12g}")
    return [ends[0], rounded, ends[1]] if ends[0] < rounded < ends[1] else ends


def _number(value: float) -> str:
    """Returns a number as a short label.

    >>> _number(0.02), _number(1e-5), _number(130000.0)
    ('0.02', '$10^{-5}$', '1.3e5')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.6g}"
    factor, power = f"{value:.2e}".split("e")
    factor = factor.rstrip("0").rstrip(".")
    return f"$10^{{{int(power)}}}$" if factor == "1" else f"{factor}e{int(power)}"


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
