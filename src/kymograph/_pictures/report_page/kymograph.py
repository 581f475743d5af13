"""Kymographs: depth down one axis, training time along the other, colour the measured quantity.

A network with few sites is one map per arm. One with many has a picture of several maps per arm, each with its own
colour scale: the outputs of its blocks large, a strip per family of layers, and the layers without relatives.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kymograph._pictures.arrangement import Arrangement, DepthMap, arrange
from kymograph._pictures.report_page.charts import (
    Chart,
    ChartRequest,
    Panel,
    positions,
    rounded,
    scale_data,
    seeds_text,
)
from kymograph._pictures.report_page.svg import (
    Frame,
    Scale,
    element,
    labels,
    number,
    picture,
    position_labels,
    scale_over,
    shortened,
)
from kymograph._pictures.scales import (
    MAP,
    SIGNED_MAP,
    colour_values,
    drawable,
    flushed,
    geometric_means,
    is_log_colour,
    relative_to_start,
)
from kymograph._pictures.series import (
    CellState,
    are_whole,
    bin_width,
    binned,
    cell_edges,
    cell_states,
    count_seeds,
    mean_over_seeds,
    measured_steps,
    never_ran,
    step_positions,
)
from kymograph._pictures.styles import svg_mathematics
from kymograph._wording import counted

PARTS = {
    "kymograph": {
        "attribute": "kymograph_panel",
        "about": "a series over training time and depth, as colour, one picture per arm",
        "order": 30,
    },
}

COLUMNS = 200
"""The most cells along the time axis."""
FEWEST_COLUMNS = 60
"""The most cells along the time axis of the largest networks."""
CELLS = 30_000
"""How many cells a chart may have, all arms together, before it has fewer columns; each takes about 10 bytes."""
FRAME = Frame(height=200, top=8, bottom=38)
BAR = Frame(height=56, left=12, right=14, top=18, bottom=24)
LEVELS = 64
"""The number of colours in an image: so many that adjacent shades look alike, so few that the file stays small."""
LINE = 14
"""The vertical distance between labels, in pixels: the height of their letters on a phone."""
WIDEST_LABELS = 120
"""The most pixels left of a map for the labels of its rows."""


@dataclass(frozen=True)
class _Cells:
    """One arm's cells, its sites in the order of the rows: ``values`` and ``seeds`` are (site, column)."""

    arm: str
    n: int
    x: np.ndarray
    values: np.ndarray
    seeds: np.ndarray
    """The fewest seeds at any step of each cell."""
    exists: np.ndarray
    """Whether the arm has each site, (site,)."""
    width: int
    """How many steps one cell covers."""


@dataclass(frozen=True)
class _View:
    """The values (site, column) of one map in every arm, and their common colour scale."""

    name: str
    values: list[np.ndarray]
    scale: Scale
    """From values to shares of the colour map."""
    map: str

    @property
    def css(self) -> str:
        """The classes of the view's elements."""
        return f"view {self.name.replace(' ', '-')}"

    @property
    def saturated(self) -> bool:
        """Whether some values lie outside the colour range."""
        finite = np.concatenate([part[np.isfinite(part)] for part in self.values])
        if self.scale.log:
            finite = finite[finite > 0]
        return bool((finite < self.scale.low * (1 - 1e-9)).any() or (finite > self.scale.high * (1 + 1e-9)).any())


@dataclass(frozen=True)
class _PlacedMap:
    """A map within the picture of an arm: where it is, which rows it shows, and its views."""

    map: DepthMap
    rows: slice
    top: int
    height: int
    has_ticks: bool
    """Whether the time axis is labelled below it."""
    views: tuple[_View, ...]


@dataclass(frozen=True)
class _Layout:
    """Arms that are drawn with the same rows."""

    sites: tuple[str, ...]
    """The sites of all maps, one below the other."""
    arms: tuple[_Cells, ...]
    maps: tuple[_PlacedMap, ...]
    frame: Frame


def kymograph_panel(request: ChartRequest) -> Chart | None:
    """Returns one picture per arm of a series (arm, seed, step, site); None if it cannot be drawn.

    A series without negative values has a second view, relative to its start; ``{"relative": True}`` in the display's
    ``options`` shows that view first.

    Colour is the mean over seeds: geometric, on a log scale, if every value is positive; otherwise arithmetic, and on a
    scale that is symmetric around 0 if some means are negative. Each map has one scale for all arms that have its rows.
    """
    array, display = request.array(), request.display
    if "site" not in array.labels or len(array.labels["step"]) < 2:
        return None
    values = drawable(flushed(array.values))
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    log = is_log_colour(display, values)
    geometric = geometric_means(values, log, axis=1)
    of_arm = {arm: part for arm, part in zip(array.labels["arm"], values, strict=True) if not np.isnan(part).all()}
    arrangements = arrange({arm: array.sites_of[arm] for arm in of_arm}, never_ran(request.store, array))
    has_relative = bool((finite >= 0).all() and (finite > 0).any())
    rows = sum(len(each.arms) * sum(len(drawn.sites) for drawn in each.maps) for each in arrangements)
    columns = max(FEWEST_COLUMNS, min(COLUMNS, CELLS // rows))
    steps, column_of = step_positions(array), {str(site): at for at, site in enumerate(array.labels["site"])}
    inside = len(arrangements) > 1 or len(arrangements[0].maps) > 1  # whether every map has its scale next to its title
    left = _label_width(arrangements)
    layouts = []
    for arrangement in arrangements:
        sites = tuple(site for each in arrangement.maps for site in each.sites)
        chosen = [column_of[site] for site in sites]
        arms = tuple(
            _cells(arm, of_arm[arm][..., chosen], steps, geometric, columns,
                   np.isin(sites, array.sites_of[arm])) for arm in arrangement.arms
        )  # fmt: skip
        layouts.append(_layout(arrangement.maps, sites, arms, log, has_relative, left, inside))

    ordered = {cells.arm: (index, cells) for index, layout in enumerate(layouts) for cells in layout.arms}
    drawn = [ordered[arm] for arm in of_arm]
    first = "relative" if display.options.get("relative") else "as measured"
    panels = [_panel(request, layouts[index], cells, inside) for index, cells in drawn]
    chart_data = {
        "kind": "kymograph", "time": request.time, "whole": are_whole(steps), "unit": display.unit,
        "states": {"zero": CellState.ZERO.label, "missing": CellState.MISSING.label, "absent": CellState.ABSENT.label},
        "layouts": [{"sites": layout.sites, "box": layout.frame.box,
                     "maps": [[each.top, each.height, len(each.map.sites)] for each in layout.maps]}
                    for layout in layouts],
        "panels": [_panel_data(request, layouts[index], index, cells) for index, cells in drawn],
    }  # fmt: skip
    foot: list[Markup] = []
    if not inside:
        (single,) = layouts[0].maps
        units = [display.unit, f"{display.unit}, relative to the start"]
        foot += [_bar(view, unit) for view, unit in zip(single.views, units, strict=False)]
    looks = _looks([cells for _, cells in drawn], log)
    return Chart(
        request.id,
        f"{display.title} over training",
        tuple(panels),
        _caption(request, layouts, log, geometric, inside, [name for each in arrangements for name in each.left_out]),
        chart_data,
        Markup("").join(foot) if foot else None,
        view=first if has_relative else "",
        legend=_legend(request.id, looks) if looks else None,
    )


def _cells(
    arm: str, values: np.ndarray, steps: np.ndarray, geometric: bool, columns: int, exists: np.ndarray
) -> _Cells:
    """Returns the mean over seeds of ``values`` (seed, step, site), thinned to ``columns``."""
    steps, values, n = steps[measured := measured_steps(values)], values[:, measured], count_seeds(values)
    mean = mean_over_seeds(values, geometric)  # (step, site)
    if geometric:  # where the seeds measured exactly 0, the mean is 0, although 0 has no colour
        mean = np.where((values == 0).any(axis=0) & np.isnan(mean), 0.0, mean)
    seeds = (~np.isnan(values)).sum(axis=0)  # (step, site)
    x, thin = binned(steps, mean.T, "mean", columns)
    fewest = -binned(steps, -seeds.T.astype(np.float64), "max", columns)[1]
    return _Cells(arm, n, x, thin, fewest.astype(int), exists, bin_width(len(steps), columns))


def _label_width(arrangements: Sequence[Arrangement]) -> int:
    """Returns the pixels left of all maps, so that the time axes of all arms start at one position."""
    longest = max(len(label) for arrangement in arrangements for each in arrangement.maps for label in each.labels)
    return min(max(FRAME.left, 7 * longest + 12), WIDEST_LABELS)


def _layout(
    maps: Sequence[DepthMap],
    sites: tuple[str, ...],
    arms: tuple[_Cells, ...],
    log: bool,
    has_relative: bool,
    left: int,
    inside: bool,
) -> _Layout:
    """Returns where the maps are, one below the other, and their colour scales."""
    placed, row = [], 0
    end = FRAME.top
    for index, each in enumerate(maps):
        rows = slice(row, row + len(each.sites))
        views = [_view("as measured", [arm.values[rows] for arm in arms], log)]
        if has_relative:
            views.append(_view("relative", [relative_to_start(arm.values[rows].T).T for arm in arms], True))
        has_ticks = index == len(maps) - 1 or each.large
        top = end + (12 if inside else 0)
        height = _height(each) if inside else FRAME.box[3]
        placed.append(_PlacedMap(each, rows, top, height, has_ticks, tuple(views)))
        row, end = rows.stop, top + height + (24 if has_ticks else 10)
    bottom = FRAME.bottom
    height = placed[-1].top + placed[-1].height + bottom
    return _Layout(sites, arms, tuple(placed), Frame(FRAME.width, height, left, FRAME.right, FRAME.top, bottom))


def _height(drawn: DepthMap) -> int:
    """Returns the height of a map in a picture of several: the stream large, families as strips, names legible."""
    count = len(drawn.sites)
    if drawn.large:
        return min(max(154, 6 * count), 260)
    return min(max(30, 4 * count), 56) if drawn.pattern else min(LINE * count, 280)


def _view(name: str, values: list[np.ndarray], log: bool) -> _View:
    deciding = colour_values([part.T for part in values], log)
    if log or (deciding >= 0).all():
        return _View(name, values, scale_over(deciding, 0, 1, log, pad=0), MAP)
    largest = float(np.abs(deciding).max())
    return _View(name, values, Scale(-largest, largest, 0, 1), SIGNED_MAP)


def _looks(arms: Sequence[_Cells], log: bool) -> list[CellState]:
    """Returns the states without a colour that occur, in their order."""
    found: set[int] = set()
    for arm in arms:
        found |= set(np.unique(cell_states(arm.values.T[None], arm.exists)).tolist())
    without = [CellState.ZERO] if log else []
    return [state for state in (*without, CellState.MISSING, CellState.ABSENT) if state in found]


def _caption(
    request: ChartRequest,
    layouts: Sequence[_Layout],
    log: bool,
    geometric: bool,
    inside: bool,
    left_out: Sequence[str],
) -> str:
    arms = [arm for layout in layouts for arm in layout.arms]
    mean = "geometric mean" if geometric else "mean"
    mean += f" over {seeds_text([arm.n for arm in arms])} per arm"
    scale = "log scale" if log else "scale"
    if inside:
        first = "the outputs of the blocks, " if any(m.map.large for layout in layouts for m in layout.maps) else ""
        sentences = [
            f"Depth runs downwards, training to the right: {first}a strip per family of layers whose names differ only "
            "in an index, and layers without relatives.",
            f"Colour: {request.display.unit}, {mean}, with a {scale} for each map, the same in all panels.",
        ]
    else:
        sentences = ["Depth runs downwards, training to the right.",
                     f"Colour: {mean}, on one {scale} for all panels."]  # fmt: skip
    if len(layouts) > 1:
        sentences.append("Arms that share less than half of their layers have rows and scales of their own.")
    if left_out:
        sentences.append(f"Never ran, left out: {', '.join(dict.fromkeys(left_out))}.")
    if any(run.divergence is not None for run in request.store):
        sentences.append("Values that are not finite, as of runs that diverged, are not drawn.")
    if any(view.saturated for layout in layouts for each in layout.maps for view in each.views):
        sentences.append("A colour range excludes the first step if that would stretch it; values outside it have the "
                         "colour of the nearer end.")  # fmt: skip
    width = max(arm.width for arm in arms)
    if width > 1:
        sentences.append(f"Long series are thinned: each cell is the mean of up to {width} steps.")
    return " ".join(sentences)


def _panel_data(request: ChartRequest, layout: _Layout, index: int, arm: _Cells) -> dict[str, Any]:
    edges = cell_edges(arm.x)
    return {
        "title": request.styles[arm.arm].label,
        "layout": index,
        "x": scale_data(_across(layout.frame, edges)),
        "steps": positions(arm.x),
        "edges": positions(edges),
        "values": [rounded(row) if here else None for row, here in zip(arm.values, arm.exists.tolist(), strict=True)],
        "counts": _compact([_compact(row) for row in arm.seeds.tolist()]),
    }


def _compact(entries: list[Any]) -> Any:
    """Returns the common entry if all are equal, else the list: seeds seldom drop out."""
    return entries[0] if all(entry == entries[0] for entry in entries) and not isinstance(entries[0], list) else entries


def _across(frame: Frame, edges: np.ndarray) -> Scale:
    left, _, width, _ = frame.box
    return Scale(float(edges[0]), float(edges[-1]), left, left + width)


def _panel(request: ChartRequest, layout: _Layout, arm: _Cells, inside: bool) -> Panel:
    frame, edges = layout.frame, cell_edges(arm.x)
    left, _, width, _ = frame.box
    across, index = _across(frame, edges), layout.arms.index(arm)
    ids = f"{request.id}-{request.store.arms.index(arm.arm)}"
    patterns = {state: f"{ids}-{state.name.lower()}" for state in (CellState.ZERO, CellState.ABSENT)}
    scales = {view.map: f"{ids}-{view.map}" for each in layout.maps for view in each.views} if inside else {}
    parts: list[object] = [
        element("defs", *(_pattern(state, name) for state, name in patterns.items()),
                *(_gradient(colours, name) for colours, name in scales.items()))
    ]  # fmt: skip
    ticks = [tick for tick in across.ticks(4) if edges[0] <= tick <= edges[-1]]
    for at, each in enumerate(layout.maps):
        if inside:
            parts += _heading(each, frame, scales)
        parts += _map(each, index, arm, edges, frame, patterns, f"{ids}-{at}")
        bottom = each.top + each.height
        for tick, text in zip(ticks, position_labels(ticks), strict=True):
            x = across.at(tick)
            parts.append(element("line", class_="axis", x1=x, x2=x, y1=bottom, y2=bottom + 4))
            if each.has_ticks:
                parts.append(element("text", text, x=x, y=bottom + 15, text_anchor="middle"))
    middle = left + width / 2
    parts.append(element("text", request.time, class_="label", x=middle, y=frame.height - 4, text_anchor="middle"))
    finite = arm.values[np.isfinite(arm.values)]
    span = f", from {number(finite.min())} to {number(finite.max())}" if len(finite) else ""
    display, label = request.display, request.styles[arm.arm].label
    count = f", {counted(len(layout.maps), 'map')}" if len(layout.maps) > 1 else ""
    description = f"{display.title}, {label}: {display.unit} over {request.time} and depth{count}{span}"
    return Panel(f"{label} (n = {arm.n})", picture(frame, description, *parts))


def _heading(placed: _PlacedMap, frame: Frame, scales: Mapping[str, str]) -> list[object]:
    """Returns the title of a map, which has the full pattern as its tooltip, and to its right its colour scale."""
    drawn, y = placed.map, placed.top - 5
    title = element("title", f"{drawn.pattern or drawn.title or 'all layers'}: {counted(len(drawn.sites), 'layer')}")
    text = shortened(drawn.title or "all layers", 34)
    parts: list[object] = [element("text", text, title, class_="label", x=2, y=y)]
    right = frame.width - frame.right
    for view in placed.views:
        low, high = view.scale.low, view.scale.high
        parts.append(
            element("g",
                    element("text", number(low, 3), x=right - 132, y=y, text_anchor="end"),
                    element("rect", fill=f"url(#{scales[view.map]})", x=right - 126, y=y - 8, width=64, height=8),
                    element("text", number(high, 3), x=right - 56, y=y),
                    class_=view.css)
        )  # fmt: skip
    return parts


def _map(
    placed: _PlacedMap,
    index: int,
    arm: _Cells,
    edges: np.ndarray,
    frame: Frame,
    patterns: Mapping[CellState, str],
    name: str,
) -> list[object]:
    """Returns the cells of one map of an arm, and the labels of its rows."""
    left, _, width, _ = frame.box
    drawn, top, height = placed.map, placed.top, placed.height
    box = {"x": left, "y": top, "width": width, "height": height}
    row = height / len(drawn.sites)
    exists = arm.exists[placed.rows]
    parts: list[object] = [element("rect", class_="missing", **box)]
    parts += [
        element("rect", fill=f"url(#{patterns[CellState.ABSENT]})", x=left, y=top + at * row, width=width, height=row)
        for at in np.flatnonzero(~exists).tolist()
    ]
    for view in placed.views:
        cells = _evenly(view.values[index], arm.x, edges)
        parts.append(element("image", class_=view.css, href=_png(view.scale(cells), view.map),
                             preserveAspectRatio="none", **box))  # fmt: skip
        zeros = (cells == 0) & view.scale.log
        if zeros.any():
            mask = f"{name}-{view.name.split()[0]}"
            image = element("image", href=_mask(zeros), preserveAspectRatio="none", **box)
            parts.append(element("mask", image, id=mask, maskUnits="userSpaceOnUse", **box))
            parts.append(element("rect", class_=view.css, fill=f"url(#{patterns[CellState.ZERO]})",
                                 mask=f"url(#{mask})", **box))  # fmt: skip
    most = 7 * (left - 8) // 48
    for at in drawn.ticks(max(1, height // LINE)):
        label = svg_mathematics(shortened(drawn.labels[at], most))
        parts.append(element("text", label, x=left - 6, y=top + (at + 0.5) * row + 4, text_anchor="end"))
    return parts


def _evenly(cells: np.ndarray, x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Returns cells (site, column) in columns of equal width, as an image has them; unequal ones are resampled."""
    if len(x) <= 2 or np.allclose(np.diff(x), x[1] - x[0]):
        return cells
    reach = edges[-1] - edges[0]
    grid = np.linspace(edges[0], edges[-1], 2 * COLUMNS, endpoint=False) + reach / (4 * COLUMNS)
    resampled: np.ndarray = cells[:, np.clip(np.searchsorted(edges, grid, side="right") - 1, 0, len(x) - 1)]
    return resampled


def _pattern(state: CellState, name: str) -> Markup:
    """Returns the fill of a state that has no colour; it follows the theme, and differs in more than its colour."""
    marks, size = [element("circle", class_="dots", cx=1.5, cy=1.5, r=0.7)], 3
    if state is CellState.ABSENT:
        marks, size = [element("path", class_="stripes", d="M-1,1L1,-1M0,6L6,0M5,7L7,5")], 6
    ground = element("rect", class_="zeros" if state is CellState.ZERO else "ground", width=size, height=size)
    return element("pattern", ground, *marks, id=name, width=size, height=size, patternUnits="userSpaceOnUse")


def _gradient(colour_map: str, name: str) -> Markup:
    """Returns a fill that runs through a colour map."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    shares = np.linspace(0, 1, 9)
    stops = [element("stop", offset=float(share), stop_color=to_hex(colormaps[colour_map](share))) for share in shares]
    return element("linearGradient", *stops, id=name)


def _legend(chart: str, states: Sequence[CellState]) -> Markup:
    """Returns the legend of the states that occur."""
    entries = []
    for state in states:
        name = f"{chart}-legend-{state.name.lower()}"
        box = {"x": 1, "y": 0.5, "width": 28, "height": 9}
        if state is CellState.MISSING:
            inside = [element("rect", class_="missing", **box)]
        else:
            inside = [element("defs", _pattern(state, name)), element("rect", fill=f"url(#{name})", **box)]
        swatch = element("svg", *inside, class_="swatch", viewBox="0 0 30 10", aria_hidden="true")
        entries.append(element("li", swatch, element("span", state.label)))
    return element("ul", *entries, class_="legend")


def _bar(view: _View, unit: str) -> Markup:
    left, top, width, height = BAR.box
    shown = Scale(view.scale.low, view.scale.high, left, left + width, view.scale.log)
    parts: list[object] = [
        element("image", href=_png(np.linspace(0, 1, 256)[None], view.map), x=left, y=top, width=width, height=height,
                preserveAspectRatio="none")
    ]  # fmt: skip
    ticks = shown.ticks(5)
    for tick, text in zip(ticks, labels(ticks), strict=True):
        at = shown.at(tick)
        parts.append(element("line", class_="axis", x1=at, x2=at, y1=top + height, y2=top + height + 3))
        parts.append(element("text", text, x=at, y=top + height + 15, text_anchor="middle"))
    scale = " (log scale)" if shown.log else ""
    parts.append(element("text", svg_mathematics(unit + scale), class_="label", x=left, y=12))
    label = f"colour scale, {unit}: {number(shown.low)} to {number(shown.high)}"
    return element("div", picture(BAR, label, *parts), class_=view.css)


def _png(shares: np.ndarray, colour_map: str) -> str:
    """Returns an image with one pixel per cell as a data URL; cells without a ``share`` of the map are transparent."""
    from matplotlib import colormaps

    levels = np.rint(np.clip(np.nan_to_num(shares), 0, 1) * (LEVELS - 1))
    colours: np.ndarray = colormaps[colour_map](np.linspace(0, 1, LEVELS), bytes=True)[:, :3]
    palette = np.concatenate([colours, colours[:1]])
    return _data_url(np.where(np.isfinite(shares), levels, LEVELS).astype(np.uint8), palette, transparent=LEVELS)


def _mask(here: np.ndarray) -> str:
    """Returns an image with one pixel per cell as a data URL: white in the cells that are ``here``, else black."""
    return _data_url(here.astype(np.uint8), np.array([[0, 0, 0], [255, 255, 255]], dtype=np.uint8))


def _data_url(levels: np.ndarray, palette: np.ndarray, transparent: int | None = None) -> str:
    from PIL import Image

    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    image.putpalette(palette.tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True, **({} if transparent is None else {"transparency": transparent}))
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
