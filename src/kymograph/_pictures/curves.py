"""Series over training and along depth, one curve per arm, with a band over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kymograph._errors import KymographError
from kymograph._pictures.arrangement import Arrangement, DepthMap, arrange
from kymograph._pictures.canvas import (
    LabFigure,
    dot,
    label_panel,
    legends,
    panel_grid,
    set_log_x,
    set_log_y,
    stroke,
    styled,
)
from kymograph._pictures.scales import INTERVAL, Spread, drawable, geometric_means, is_log, is_log_profile
from kymograph._pictures.series import (
    Bin,
    count_seeds,
    measured_steps,
    never_ran,
    sited_series,
    step_positions,
    stored_displays,
    thinned_curves,
    values_at,
)
from kymograph._pictures.stacked import StackBlock, fitting, notes_on, scaled, stacked
from kymograph._pictures.styles import ArmStyle, arm_styles, literal, mathtext
from kymograph._runs.declaration import Declaration, SeriesDisplay, bounds_of
from kymograph._runs.store import LabelledArray, Store
from kymograph._runs.stored_run import StoredRun

PARTS = {
    "curves": {
        "attribute": "draw_curves",
        "about": "every series over training, a panel per series and a curve per arm",
        "order": 1,
    },
    "profiles": {
        "attribute": "draw_profiles",
        "about": "a series along depth at the start, middle and end, a curve per arm",
        "order": 3,
        "of": "series",
    },
}


COLUMNS = ("panel", "curve", "seed", "x", "value")
SITED_COLUMNS = ("panel", "curve", "seed", "x", "site", "value")
"""For curves along depth: ``x`` is a position, and ``site`` is the layer's name."""
_ALPHA = 0.2  # of a band
BINS = 250
"""The most points of a curve."""
MOST_LINES = 100
"""The most seeds drawn as single lines; thousands would merge into one surface and take minutes to draw."""


def seed_curves(
    figure: LabFigure,
    axes: Axes,
    panel: str,
    name: str,
    x: np.ndarray,
    values: np.ndarray,
    seeds: Sequence[Any],
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
    down: bool = False,
) -> None:
    """Draws one arm: thin lines for the seeds, a thick one for their mean, a band for their spread.

    With more than `MOST_LINES` seeds, their range is shaded instead of the thin lines.

    ``values`` is (seed, x); a seed without any value does not count in n. The rows are added to the figure's data.

    ``geometric`` selects the geometric mean and should be the same for all arms of a panel; by default the mean is
    geometric on a log axis, unless only some seeds are 0 at some x. ``sites`` names the positions of curves along
    depth. A long curve is thinned to ``bins`` points. Without ``each_seed`` single seeds are not drawn, e.g. because
    they are all spikes. Bands stay within ``bounds``. With ``down``, ``x`` is on the vertical axis.

    Of curves along depth, sites where every seed is exactly 0 are marked at the edge of a log axis.
    """
    fill = axes.fill_betweenx if down else axes.fill_between
    line: Any = (0, tuple(dash)) if dash else "-"
    curves = thinned_curves(x, drawable(values), seeds, bin_by, bins if sites is None else None)
    x, values, seeds, n = curves.x, curves.values, curves.seeds, len(curves.seeds)
    if not n:
        axes.plot([], [], color=colour, linestyle=line, label=f"{literal(name)} (no value)")
        return
    lines = dict(zip(seeds, values, strict=True))
    if log and sites is not None:
        _mark_zeros(axes, x[(np.nan_to_num(values) == 0).all(axis=0)], colour, down)
    if log and not (values > 0).any():
        label = f"{literal(name)} (n = {n}; exactly 0{', not on this scale' if sites is None else ''})"
        axes.plot([], [], color=colour, linestyle=line, label=label)
        _note(figure, panel, name, x, lines, sites)
        return
    shown = curves.shown(log)
    if n > MOST_LINES:
        fill(x, *curves.ends(log), color=colour, alpha=0.12, linewidth=0)
    elif n > 1 and each_seed:
        # One collection, not one line each: in a PDF or SVG, the renderer would switch to pixels and back for each.
        paths = np.stack([np.broadcast_to(x, shown.shape), shown], axis=2)  # (seed, x, 2)
        paths = paths[..., ::-1] if down else paths
        alpha = min(0.35, max(0.08, 1.4 / n))  # fainter the more there are, so that they do not hide the means
        thin = LineCollection(list(paths), colors=colour, linewidths=stroke(0.3125), alpha=alpha,
                              rasterized=True, zorder=1.8)  # fmt: skip
        axes.add_collection(thin, autolim=False)
        axes.update_datalim(paths[np.isfinite(shown)])
    mean, low, high = spread.of(values, geometric_means(values, log) if geometric is None else geometric)
    low, high = drawable(low), drawable(high)
    if bounds is not None:
        low, high = np.clip(low, *bounds), np.clip(high, *bounds)
    drawn = np.where(mean > 0, mean, np.nan) if log else mean
    axes.plot(*((drawn, x) if down else (x, drawn)), color=colour, linewidth=stroke(), marker=marker,
              markersize=dot(), zorder=2.5, linestyle=line, label=f"{literal(name)} (n = {n})")  # fmt: skip
    if n > 1:
        fill(x, low, high, color=colour, alpha=_ALPHA, linewidth=0, zorder=1.9)
        lines |= {"mean": mean, "low": low, "high": high}
    _note(figure, panel, name, x, lines, sites)


def _mark_zeros(axes: Axes, x: np.ndarray, colour: str, down: bool) -> None:
    """Marks the positions ``x`` at the edge of a log axis, on which 0 is infinitely far away."""
    if len(x):
        edge = np.zeros(len(x))
        axes.plot(*((edge, x) if down else (x, edge)), linestyle="none", marker="<" if down else "v", color=colour,
                  markersize=2 * dot(), clip_on=False, zorder=3,
                  transform=axes.get_yaxis_transform() if down else axes.get_xaxis_transform())  # fmt: skip


def _note(
    figure: LabFigure,
    panel: str,
    name: str,
    x: np.ndarray,
    lines: Mapping[Any, np.ndarray],
    sites: Sequence[str] | None,
) -> None:
    """Adds the points of every line to the figure's data, with the names of their sites if they are along depth."""
    for key, line in lines.items():
        points = list(zip(x.tolist(), line.tolist(), strict=True))
        if sites is None:
            figure.note(COLUMNS, [(panel, name, key, at, value) for at, value in points])
        else:
            figure.note(SITED_COLUMNS, [(panel, name, key, at, str(sites[int(at)]), value) for at, value in points])


def name_bands(panels: Iterable[Axes], spread: Spread = INTERVAL) -> None:
    """Adds a single legend entry that explains the bands of several panels; none if no panel has a band."""
    banded = [axes for axes in panels if _has_band(axes)]
    if banded:
        label = spread.label_of_all(axes.get_yscale() == "log" for axes in banded)
        banded[-1].fill_between([], [], [], color="black", alpha=_ALPHA, linewidth=0, label=label)


def name_band(axes: Axes, spread: Spread, log: bool) -> None:
    """Adds a legend entry that explains the panel's bands; none if it has no band, as with one seed."""
    if _has_band(axes):
        axes.fill_between([], [], [], color="black", alpha=_ALPHA, linewidth=0, label=spread.label(log))


def _has_band(axes: Axes) -> bool:
    return any(isinstance(collection, PolyCollection) for collection in axes.collections)


MOST_PANELS = 12


@styled
def draw_curves(store: Store, declaration: Declaration) -> LabFigure:
    """Draws the declared series (or all that have one value per step), with mean and interval over seeds."""
    panels = [(display, array) for display in stored_displays(store, declaration) if (array := _curve(store, display))]
    if not panels:
        raise KymographError(f"no series of {declaration.name} has one value per step to draw over training")
    panels = panels[:MOST_PANELS]
    styles = arm_styles(declaration, store.arms)
    figure, grid = panel_grid(len(panels), (5.2, 3.4), 2, least=2.2)
    for axes, (display, array) in zip(grid, panels, strict=True):
        log = is_log(display, array.values)
        geometric = geometric_means(array.values, log, axis=1)
        for arm in array.labels["arm"]:
            style = styles[arm]
            values = array.sel(arm=arm).values
            x = np.array(array.labels["step"])
            if x.dtype.kind == "f":
                x = step_positions(array)
            alone = np.isfinite(values).any(axis=0).sum() == 1  # a line through one point would not show
            seed_curves(figure, axes, display.title, style.label, x, values, array.labels["seed"],
                        style.hex, log, display.bin_by, marker="o" if alone else None,
                        dash=style.dashes, geometric=geometric,
                        bounds=bounds_of(display.series, array.values, declaration.bounds))  # fmt: skip
        if log:
            set_log_y(axes)
        label_panel(axes, display.title, declaration.time, display.unit)
    name_bands(grid)
    legends(figure, grid)
    figure.entitle(declaration.question or declaration.name)
    return figure


def _curve(store: Store, display: SeriesDisplay) -> LabelledArray | None:
    """Returns the series with axes (arm, seed, step); None if it has several sites, or a single step."""
    if "curves" not in display.forms:
        return None
    array = store.series(display.series)
    if "site" in array.labels:
        if display.site not in array.labels["site"]:
            return None
        array = array.sel(site=display.site)
    return array if len(array.labels["step"]) > 1 else None


MOST_NAMES = 12
"""The most sites labelled on a horizontal axis."""
MOST_ALONG = 16
"""The most sites with long names on a horizontal axis."""


@styled
def draw_profiles(
    store: Store,
    declaration: Declaration,
    series: str | None = None,
    *,
    family: str | None = None,
    all_sites: bool = False,
) -> LabFigure:
    """Draws the series (default: the first that has a value per site) along depth, a panel per moment.

    Curves are means over seeds with their 95 % interval; on a log axis geometric means, unless some seeds are 0. The
    panels of all moments share their axis, so that they can be compared. A network of many sites has a row of panels
    for every family of sites, with depth running down.
    """
    sited = [pair for pair in sited_series(store, declaration, series) if len(pair[1].labels["site"]) > 1]
    if not sited:
        raise KymographError(f"{declaration.name} has no series with several sites, which a profile needs")
    display, array = min(sited, key=lambda pair: "profile" not in pair[0].forms)  # sites need not be layers
    arrangements = arrange(array.sites_of, never_ran(store, array), family=family, all_sites=all_sites)
    styles = arm_styles(declaration, store.arms)
    profiles = _Profiles(display, array, moments_of(array), styles, declaration)
    (drawn, *more) = arrangements[0].maps
    short = len(drawn.sites) <= MOST_ALONG or max(map(len, drawn.labels)) <= 4
    if len(arrangements) == 1 and not more and not arrangements[0].left_out and short:
        return _draw_along(profiles, drawn)
    return _draw_down(profiles, arrangements)


@dataclass(frozen=True)
class _Profiles:
    """What profiles are drawn of: a series, its values (arm, seed, site) at some moments, and the arms' styles."""

    display: SeriesDisplay
    array: LabelledArray
    moments: list[tuple[str, np.ndarray]]
    styles: Mapping[str, ArmStyle]
    declaration: Declaration

    def scale(self, drawn: DepthMap, arms: Iterable[str]) -> tuple[bool, np.ndarray]:
        """Returns whether the values of a map have a log axis, and the values (moment, arm, seed, site)."""
        columns = [self.array.labels["site"].index(site) for site in drawn.sites]
        rows = [self.array.labels["arm"].index(arm) for arm in arms]
        values = np.stack([values[rows][..., columns] for _, values in self.moments])
        return is_log_profile(self.display, values), values

    def draw(
        self, figure: LabFigure, axes_of: Mapping[str, Axes], drawn: DepthMap, arms: Sequence[str], down: bool
    ) -> None:
        """Draws the profiles of ``arms`` over the sites of a map, in one panel per moment, on one axis of values."""
        log, everything = self.scale(drawn, arms)
        geometric = geometric_means(everything, log, axis=2)
        bounds = bounds_of(self.display.series, everything, self.declaration.bounds)
        first, *others = axes_of.values()
        for axes in others:  # before drawing, so that the limits cover all panels
            (axes.sharex if down else axes.sharey)(first)
        for (moment, axes), of_moment in zip(axes_of.items(), everything, strict=True):
            for arm, values in zip(arms, of_moment, strict=True):
                style = self.styles[arm]
                seed_curves(figure, axes, moment, style.label, np.arange(len(drawn.sites)), values,
                            self.array.labels["seed"], style.hex, log, marker="o", dash=style.dashes,
                            geometric=geometric, sites=drawn.sites, bounds=bounds, down=down)  # fmt: skip
            if log:
                (set_log_x if down else set_log_y)(axes)


def _draw_along(profiles: _Profiles, drawn: DepthMap) -> LabFigure:
    """Draws few sites along the horizontal axis, a panel per moment."""
    figure, grid = panel_grid(len(profiles.moments), (3.6, 3.2), 3, least=2.0)
    axes_of = {moment: axes for (moment, _), axes in zip(profiles.moments, grid, strict=True)}
    arms = profiles.array.labels["arm"]
    profiles.draw(figure, axes_of, drawn, arms, down=False)
    for moment, axes in axes_of.items():
        axes.set_title(moment[:1].upper() + moment[1:])
        axes.set_xlabel(mathtext(str(profiles.display.options.get("sites", "site"))))
        _name_sites(axes, drawn.labels)
    grid[0].set_ylabel(mathtext(profiles.display.unit))
    name_bands(grid)
    log, values = profiles.scale(drawn, arms)
    if log and (values == 0).any():
        grid[-1].plot([], [], linestyle="none", marker="v", color="black", markersize=2 * dot(), label=_AT_EDGE)
    legends(figure, grid)
    figure.entitle(_title(profiles.display, drawn))
    return figure


def _draw_down(profiles: _Profiles, arrangements: Sequence[Arrangement]) -> LabFigure:
    """Draws many sites down the vertical axis: a row of panels per map, a column per moment."""
    array, moments = profiles.array, profiles.moments
    legend: list[tuple[Artist, str]] = []
    for arm, values in zip(array.labels["arm"], array.values, strict=True):
        style = profiles.styles[arm]
        line: Any = (0, tuple(style.dashes)) if style.dashes else "-"
        handle = Line2D([], [], color=style.hex, linestyle=line, marker="o", markersize=dot())
        legend.append((handle, f"{literal(style.label)} (n = {count_seeds(drawable(values))})"))
    notes, blocks, contents = [], [], []
    for arrangement in arrangements:
        maps, rows = fitting(arrangement, ticks_below=True)
        blocks.append(StackBlock(tuple(moment[:1].upper() + moment[1:] for moment, _ in moments), rows))
        contents.append((arrangement.arms, maps))
        notes += notes_on(arrangement, maps)
    scales = [profiles.scale(drawn, arms) for arms, maps in contents for drawn in maps]
    if len(array.labels["seed"]) > 1:
        band = INTERVAL.label_of_all(log for log, _ in scales)
        legend.append((Patch(color="black", alpha=_ALPHA, linewidth=0), band))
    if any(log and (values == 0).any() for log, values in scales):
        marker = Line2D([], [], linestyle="none", marker="<", color="black", markersize=2 * dot())
        legend.append((marker, _AT_EDGE))
    single = contents[0][1][0] if len(contents) == 1 and len(contents[0][1]) == 1 else None
    title = _title(profiles.display, single)
    stack = stacked(blocks, title, right=0.15, legend=legend, notes=notes, ticks_below=True)
    for panels, (arms, maps) in zip(stack.panels, contents, strict=True):
        for of_row, drawn in zip(panels, maps, strict=True):
            axes_of = {moment: axes for (moment, _), axes in zip(moments, of_row, strict=True)}
            profiles.draw(stack.figure, axes_of, drawn, arms, down=True)
            tall = of_row[0].get_position().height * stack.figure.get_figheight()
            ticks = drawn.ticks(max(1, int(tall / scaled(0.12))))
            for column, axes in enumerate(of_row):
                axes.set_ylim(len(drawn.sites) - 0.5, -0.5)  # depth runs down
                axes.set_yticks(ticks, [mathtext(drawn.labels[row]) for row in ticks] if column == 0 else [])
        for axes in panels[-1]:
            axes.set_xlabel(mathtext(profiles.display.unit))
    return stack.figure


_AT_EDGE = "exactly 0, at the edge"


def _title(display: SeriesDisplay, drawn: DepthMap | None) -> str:
    """Returns the title of profiles, with the family if only one was asked for."""
    return f"{display.title}, along depth" + (f": {drawn.pattern}" if drawn is not None and drawn.title else "")


def moments_of(array: LabelledArray) -> list[tuple[str, np.ndarray]]:
    """Returns the values (arm, seed, site) of an array (arm, seed, step, site) at start, middle and end.

    Fewer than three steps give fewer moments.
    """
    most = max((len(measured_steps(values)) for values in array.values), default=0)
    shares = {1: {"at the end": 1.0}, 2: {"at the start": 0.0, "at the end": 1.0}}.get(
        most, {"at the start": 0.0, "in the middle": 0.5, "at the end": 1.0}
    )
    return [(moment, values_at(array, share)) for moment, share in shares.items()]


def _name_sites(axes: Axes, sites: Sequence[str]) -> None:
    every = -(-len(sites) // MOST_NAMES)
    shown = range(0, len(sites), every)
    names = [mathtext(str(sites[index])) for index in shown]
    rotated = max(len(str(sites[index])) for index in shown) > 4
    axes.set_xticks(list(shown), names, rotation=45 if rotated else 0, ha="right" if rotated else "center")


def sweep_curves(
    figure: LabFigure,
    axes: Axes,
    panel: str,
    runs: Iterable[StoredRun],
    key: str,
    x: Callable[[StoredRun], float],
    curve: Callable[[StoredRun], ArmStyle],
    log: bool,
) -> None:
    """Draws the summary number ``key`` against ``x``, on a log axis; ``curve`` returns the style of a run's curve."""
    groups: dict[ArmStyle, dict[tuple[int, float], float]] = {}
    for run in runs:
        value = run.summary.get(key)
        number = np.nan if value is None or isinstance(value, str) else float(value)
        groups.setdefault(curve(run), {})[run.seed, x(run)] = number
    ticks: set[float] = set()
    for style, points in groups.items():
        seeds = tuple(dict.fromkeys(seed for seed, _ in points))
        positions = np.array(sorted({position for _, position in points}))
        values = np.array([[points.get((seed, position), np.nan) for position in positions] for seed in seeds])
        ticks |= set(positions.tolist())
        columns = zip(positions, values.T, strict=True)
        lost = [f"{position:g}" for position, column in columns if not np.isfinite(column).any()]
        label = f"{style.label}, not finite at {', '.join(lost)}" if lost else style.label
        seed_curves(figure, axes, panel, label, positions, values, seeds, style.hex, log, marker="o",
                    dash=style.dashes, bounds=bounds_of(key, values))  # fmt: skip
    if log:
        set_log_y(axes)
    axes.set_xscale("log")
    axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    axes.minorticks_off()
    axes.set_title(literal(panel))
