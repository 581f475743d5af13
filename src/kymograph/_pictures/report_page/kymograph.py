"""Kymographs: depth down one axis, training time along the other, colour the measured quantity."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

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
    are_whole,
    bin_width,
    binned,
    cell_edges,
    count_seeds,
    mean_over_seeds,
    measured_steps,
    step_positions,
)
from kymograph._pictures.styles import svg_mathematics

PARTS = {
    "kymograph": {
        "attribute": "kymograph_panel",
        "about": "a series over training time and depth, as colour, one picture per arm",
        "order": 30,
    },
}

COLUMNS = 200
"""The most cells along the time axis."""
FRAME = Frame(height=200, top=8, bottom=38)
BAR = Frame(height=56, left=12, right=14, top=18, bottom=24)


@dataclass(frozen=True)
class _Cells:
    """One arm's cells: ``values`` (site, column), and ``seeds``, the fewest seeds at any step of each cell."""

    arm: str
    n: int
    x: np.ndarray
    values: np.ndarray
    seeds: np.ndarray
    width: int
    """How many steps one cell covers."""


def kymograph_panel(request: ChartRequest) -> Chart | None:
    """Returns one picture per arm of a series (arm, seed, step, site) on one colour scale; None if it cannot be drawn.

    A series without negative values has a second view, relative to its start; ``{"relative": True}`` in the display's
    ``options`` shows that view first.

    Colour is the mean over seeds: geometric, on a log scale, if every value is positive; otherwise arithmetic, and on a
    scale that is symmetric around 0 if some means are negative.
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
    steps, sites = step_positions(array), tuple(map(str, array.labels["site"]))
    arms = [_cells(arm, part, steps, geometric) for arm, part in zip(array.labels["arm"], values, strict=True)
            if not np.isnan(part).all()]  # fmt: skip
    views = [_view("as measured", [arm.values for arm in arms], log)]
    if (finite >= 0).all() and (finite > 0).any():
        views.append(_view("relative", [relative_to_start(arm.values.T).T for arm in arms], True))
    panels, data = [], []
    for index, arm in enumerate(arms):
        edges = cell_edges(arm.x)
        left, _, width, _ = FRAME.box
        across = Scale(float(edges[0]), float(edges[-1]), left, left + width)
        label = request.styles[arm.arm].label
        drawn = [(view, view.values[index]) for view in views]
        panels.append(Panel(f"{label} (n = {arm.n})", _picture(request, label, arm, edges, sites, across, drawn)))
        data.append({"title": label, "n": arm.n, "x": scale_data(across), "steps": positions(arm.x),
                     "edges": positions(edges), "values": rounded(arm.values),
                     "counts": arm.seeds.astype(int).tolist()})  # fmt: skip
    chart_data = {"kind": "kymograph", "time": request.time, "whole": are_whole(steps), "unit": display.unit,
                  "sites": list(sites), "box": FRAME.box, "panels": data}  # fmt: skip
    units = [display.unit, f"{display.unit}, relative to the start"]
    bars = [_bar(view, unit) for view, unit in zip(views, units, strict=False)]
    first = "relative" if display.options.get("relative") else "as measured"
    return Chart(
        request.id,
        f"{display.title} over training",
        tuple(panels),
        _caption(arms, log, geometric, any(view.saturated for view in views)),
        chart_data,
        Markup("").join(bars),
        view=first if len(views) > 1 else "",
    )


@dataclass(frozen=True)
class _View:
    """The values (site, column) of every arm, and their common colour scale."""

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
        return bool((finite < self.scale.low * (1 - 1e-9)).any() or (finite > self.scale.high * (1 + 1e-9)).any())


def _view(name: str, values: list[np.ndarray], log: bool) -> _View:
    deciding = colour_values([part.T for part in values], log)
    if log or (deciding >= 0).all():
        return _View(name, values, scale_over(deciding, 0, 1, log, pad=0), MAP)
    largest = float(np.abs(deciding).max())
    return _View(name, values, Scale(-largest, largest, 0, 1), SIGNED_MAP)


def _cells(arm: str, values: np.ndarray, steps: np.ndarray, geometric: bool) -> _Cells:
    """Returns the mean over seeds of ``values`` (seed, step, site), thinned to `COLUMNS` columns."""
    steps, values, n = steps[measured := measured_steps(values)], values[:, measured], count_seeds(values)
    mean = mean_over_seeds(values, geometric)  # (step, site)
    if geometric:  # where the seeds measured exactly 0, the mean is 0, although 0 has no colour
        mean = np.where((values == 0).any(axis=0) & np.isnan(mean), 0.0, mean)
    seeds = (~np.isnan(values)).sum(axis=0)  # (step, site)
    x, thin = binned(steps, mean.T, "mean", COLUMNS)
    fewest = -binned(steps, -seeds.T.astype(np.float64), "max", COLUMNS)[1]
    return _Cells(arm, n, x, thin, fewest, bin_width(len(steps), COLUMNS))


def _caption(arms: Sequence[_Cells], log: bool, geometric: bool, saturated: bool) -> str:
    mean = "geometric mean" if geometric else "mean"
    zeros = log and any((arm.values == 0).any() for arm in arms)
    caption = (
        f"Depth runs downwards, training to the right. Colour: {mean} over {seeds_text([arm.n for arm in arms])} per "
        f"arm, on one {'log ' if log else ''}scale for all panels; grey: {'exactly 0, or ' if zeros else ''}no value."
    )
    if saturated:
        caption += " The colour range excludes the first step; values outside it have the colour of the nearer end."
    width = max(arm.width for arm in arms)
    return caption + (f" Long series are thinned: each cell is the mean of up to {width} steps." if width > 1 else "")


def _picture(
    request: ChartRequest,
    label: str,
    arm: _Cells,
    edges: np.ndarray,
    sites: tuple[str, ...],
    across: Scale,
    views: Sequence[tuple[_View, np.ndarray]],
) -> Markup:
    left, top, width, height = FRAME.box
    x, values = arm.x, arm.values
    parts: list[object] = [element("rect", class_="missing", x=left, y=top, width=width, height=height)]
    for view, cells in views:
        if len(x) > 2 and not np.allclose(np.diff(x), x[1] - x[0]):
            # An image has columns of equal width, so cells of unequal width are resampled.
            reach = edges[-1] - edges[0]
            grid = np.linspace(edges[0], edges[-1], 2 * COLUMNS, endpoint=False) + reach / (4 * COLUMNS)
            cells = cells[:, np.clip(np.searchsorted(edges, grid, side="right") - 1, 0, len(x) - 1)]
        parts.append(element("image", class_=view.css, href=_png(view.scale(cells), view.map), x=left,
                             y=top, width=width, height=height, preserveAspectRatio="none"))  # fmt: skip
    row = height / len(sites)
    for index in range(0, len(sites), -(-len(sites) // 7)):
        name = sites[index] if len(sites[index]) <= 8 else sites[index][:7] + "…"
        at = top + (index + 0.5) * row + 4
        parts.append(element("text", svg_mathematics(name), x=left - 6, y=at, text_anchor="end"))
    ticks = [tick for tick in across.ticks(4) if edges[0] <= tick <= edges[-1]]
    for tick, text in zip(ticks, position_labels(ticks), strict=True):
        at = across.at(tick)
        parts.append(element("line", class_="axis", x1=at, x2=at, y1=top + height, y2=top + height + 4))
        parts.append(element("text", text, x=at, y=top + height + 15, text_anchor="middle"))
    middle = left + width / 2
    parts.append(element("text", request.time, class_="label", x=middle, y=FRAME.height - 4, text_anchor="middle"))
    finite = values[np.isfinite(values)]
    span = f", from {number(finite.min())} to {number(finite.max())}" if len(finite) else ""
    display = request.display
    return picture(FRAME, f"{display.title}, {label}: {display.unit} over {request.time} and depth{span}", *parts)


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
    from PIL import Image

    rgba: np.ndarray = colormaps[colour_map](np.clip(np.nan_to_num(shares), 0, 1), bytes=True)
    rgba[~np.isfinite(shares)] = 0
    buffer = io.BytesIO()
    Image.fromarray(rgba).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
