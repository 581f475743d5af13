"""Kymographs: depth down one axis, training time along the other, colour the measured quantity."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from kymograph.figures.kymograph import cell_edges
from kymograph.figures.seed_curves import binned, interval
from kymograph.figures.style import MAP
from kymograph.report.chart import Chart, Panel, rounded, scale_data, seeds_text
from kymograph.report.grouping import Look
from kymograph.report.panels.curves import LARGEST
from kymograph.report.svg import Frame, Scale, element, number, picture, scale_over, thousands
from kymograph.runs.store import LabelledArray

COLUMNS = 200  # the most cells along time
FRAME = Frame(height=192, top=8, bottom=38, left=60)
BAR = Frame(width=360, height=54, left=12, right=14, top=18, bottom=24)
SIGNED_MAP = "PuOr_r"  # diverging, and told apart by all eyes


@dataclass(frozen=True)
class _Colours:
    """The one colour scale of a chart."""

    scale: Scale
    map: str

    def pixels(self, values: np.ndarray) -> np.ndarray:
        """Returns RGBA bytes; missing values are transparent."""
        from matplotlib import colormaps

        places = self.scale(values)
        rgba = colormaps[self.map](np.clip(np.nan_to_num(places), 0, 1), bytes=True)
        rgba[~np.isfinite(places)] = 0
        return rgba


def kymograph_chart(chart_id: str, array: LabelledArray, look: Look, time: str) -> Chart | None:
    """Returns one panel per arm of a series (arm, seed, step, site) on one colour scale; None if there is no value.

    Colour is the mean over seeds: geometric, on a log scale, if every value is positive; otherwise arithmetic, on a
    scale that is symmetric around 0.
    """
    values = np.where(np.abs(array.values) > LARGEST, np.nan, array.values)
    values = np.where(np.abs(values) < 1 / LARGEST, 0.0, values)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    log = bool((finite >= 0).all() and (finite > 0).any()) if look.log is None else look.log
    steps, sites = np.array(array.labels["step"], dtype=np.float64), tuple(map(str, array.labels["site"]))
    cells, counts, widths = [], [], []
    for arm in values:  # (seed, step, site)
        there = (~np.isnan(arm)).any(axis=(0, 2))
        counts.append(int((~np.isnan(arm)).any(axis=(1, 2)).sum()))
        shown = np.where(arm > 0, arm, np.nan) if log else arm
        mean = interval(shown[:, there].reshape(len(arm), -1), log)[0].reshape(-1, len(sites))  # (step, site)
        if log:  # where every seed measured exactly 0 the mean is 0, though it has no colour
            mean = np.where((arm[:, there] == 0).any(axis=0) & np.isnan(mean), 0.0, mean)
        seeds = (~np.isnan(arm[:, there])).sum(axis=0)  # (step, site)
        x, thin = binned(steps[there], mean.T, "mean", COLUMNS)
        fewest = -binned(steps[there], -seeds.T.astype(np.float64), "max", COLUMNS)[1]
        widths.append(-(-int(there.sum()) // COLUMNS))
        cells.append((x, thin, fewest))  # (site, column) both
    colours = _colours(np.concatenate([thin.ravel() for _, thin, _ in cells]), log)
    panels, data = [], []
    for arm, (x, thin, fewest), n in zip(array.labels["arm"], cells, counts, strict=True):
        if not len(x):
            continue
        edges = cell_edges(x)
        left, _, width, _ = FRAME.box
        across = Scale(float(edges[0]), float(edges[-1]), left, left + width)
        panels.append(Panel(f"{arm} (n = {n})", _picture(arm, look, x, edges, thin, sites, across, colours, time)))
        data.append({"title": arm, "n": n, "x": scale_data(across), "steps": rounded(x), "edges": rounded(edges),
                     "values": rounded(thin), "counts": fewest.astype(int).tolist()})  # fmt: skip
    mean_text = "geometric mean" if log else "mean"
    zeros = log and any((thin == 0).any() for _, thin, _ in cells)
    caption = (
        f"Depth runs down, training to the right; colour is the {mean_text} over {seeds_text(counts)} an arm, on one "
        f"{'log ' if log else ''}scale for all panels; grey: {'exactly 0, or ' if zeros else ''}no value."
    )
    if max(widths) > 1:
        caption += f" Long series are thinned: each cell is the mean of up to {max(widths)} steps."
    facts = {
        "kind": "kymograph",
        "time": time,
        "unit": look.unit,
        "sites": list(sites),
        "box": FRAME.box,
        "panels": data,
    }
    return Chart(chart_id, f"{look.title} through training", tuple(panels), caption, facts, _bar(colours, look.unit))


def _colours(values: np.ndarray, log: bool) -> _Colours:
    if log:
        return _Colours(scale_over(values, 0, 1, True, pad=0), MAP)
    finite = values[np.isfinite(values)]
    if (finite >= 0).all():
        return _Colours(scale_over(finite, 0, 1, False, pad=0), MAP)
    most = float(np.abs(finite).max())
    return _Colours(Scale(-most, most, 0, 1), SIGNED_MAP)


def _picture(
    arm: str,
    look: Look,
    x: np.ndarray,
    edges: np.ndarray,
    values: np.ndarray,
    sites: tuple[str, ...],
    across: Scale,
    colours: _Colours,
    time: str,
) -> Markup:
    left, top, width, height = FRAME.box
    if len(x) > 2 and not np.allclose(np.diff(x), x[1] - x[0]):
        # A picture has columns of one width, so cells of different widths are sampled.
        grid = np.linspace(edges[0], edges[-1], 2 * COLUMNS, endpoint=False) + (edges[-1] - edges[0]) / (4 * COLUMNS)
        values = values[:, np.clip(np.searchsorted(edges, grid, side="right") - 1, 0, len(x) - 1)]
    parts: list[object] = [
        element("rect", class_="missing", x=left, y=top, width=width, height=height),
        element("image", href=_png(colours.pixels(values)), x=left, y=top, width=width, height=height,
                preserveAspectRatio="none"),
    ]  # fmt: skip
    row = height / len(sites)
    for place in range(0, len(sites), -(-len(sites) // 7)):
        name = sites[place] if len(sites[place]) <= 8 else sites[place][:7] + "…"
        parts.append(element("text", name, x=left - 6, y=top + (place + 0.5) * row + 4, text_anchor="end"))
    for tick in across.ticks(4):
        if edges[0] <= tick <= edges[-1]:
            at = across.at(tick)
            parts.append(element("line", class_="axis", x1=at, x2=at, y1=top + height, y2=top + height + 4))
            parts.append(element("text", thousands(tick), x=at, y=top + height + 15, text_anchor="middle"))
    parts.append(element("text", time, class_="label", x=left + width / 2, y=FRAME.height - 4, text_anchor="middle"))
    finite = values[np.isfinite(values)]
    span = f", from {number(finite.min())} to {number(finite.max())}" if len(finite) else ""
    return picture(FRAME, f"{look.title}, {arm}: {look.unit} over {time} and depth{span}", *parts)


def _bar(colours: _Colours, unit: str) -> Markup:
    left, top, width, height = BAR.box
    strip = np.linspace(0, 1, 256)[None]
    plain = _Colours(Scale(0, 1, 0, 1), colours.map)
    shown = Scale(colours.scale.low, colours.scale.high, left, left + width, colours.scale.log)
    parts: list[object] = [
        element("image", href=_png(plain.pixels(strip)), x=left, y=top, width=width, height=height,
                preserveAspectRatio="none")
    ]  # fmt: skip
    for tick in shown.ticks(5):
        at = shown.at(tick)
        parts.append(element("line", class_="axis", x1=at, x2=at, y1=top + height, y2=top + height + 3))
        parts.append(element("text", number(tick), x=at, y=top + height + 15, text_anchor="middle"))
    scale = " (log scale)" if shown.log else ""
    parts.append(element("text", unit + scale, class_="label", x=left, y=12))
    return picture(BAR, f"colour scale, {unit}: {number(shown.low)} to {number(shown.high)}", *parts)


def _png(rgba: np.ndarray) -> str:
    """Returns an image with one pixel per cell as a data address."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(rgba).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
