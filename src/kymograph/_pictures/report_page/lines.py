"""Line charts of the page: series over training and along depth, every arm's mean, interval and range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph._pictures.arrangement import DepthMap, arrange
from kymograph._pictures.report_page.charts import (
    ArmGroup,
    Chart,
    ChartRequest,
    Panel,
    positions,
    rounded,
    scale_data,
    seeds_text,
)
from kymograph._pictures.report_page.svg import Frame, Scale, axes, band, element, line, picture, scale_over
from kymograph._pictures.scales import LARGEST, drawable, flushed, geometric_means, is_log, is_log_profile
from kymograph._pictures.series import (
    SeedCurves,
    are_whole,
    never_ran,
    span,
    step_positions,
    thinned_curves,
    values_at,
)
from kymograph._pictures.styles import ArmStyle
from kymograph._runs.store import LabelledArray
from kymograph._statistics.intervals import mean_interval

PARTS = {
    "curves": {"attribute": "curves_panel", "about": "a series against training time, one line per arm", "order": 20},
    "profile": {
        "attribute": "profile_panel",
        "about": "the last values of a series against its sites, one line per arm",
        "order": 40,
    },
}


POINTS = 80
"""The most points that a line keeps."""
MOST_SEEDS = 50
"""The most seeds of an arm that the page holds, for hovering and the CSV file; the bands cover all seeds."""
MOST_OTHERS = 16
"""The most arms of other panels that a panel shows in grey."""
FRAME = Frame()
SMALL = Frame(width=300, height=176, left=56, right=8, top=24, bottom=36)
"""The frame of a family's profile among many."""


@dataclass(frozen=True)
class ArmCurve:
    """One arm's lines, and the mean and interval drawn from them, each (x,)."""

    name: str
    curves: SeedCurves
    """The measured values, including those that a log scale cannot show."""
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log: bool
    geometric: bool
    """Whether the mean is geometric: on a log scale, unless some seeds are 0."""
    overflows: bool

    @property
    def n(self) -> int:
        """How many seeds have any value."""
        return len(self.curves.seeds)

    @property
    def x(self) -> np.ndarray:
        """The positions of the points."""
        return self.curves.x

    @property
    def counts(self) -> list[int]:
        """How many seeds have a value at every x."""
        return [int(count) for count in (~np.isnan(self.curves.values)).sum(axis=0)]

    @property
    def zeros(self) -> bool:
        """Whether some values are exactly 0, which a log scale cannot show."""
        return bool(self.log and (self.curves.values == 0).any())

    @property
    def zero_at(self) -> np.ndarray:
        """The positions at which all seeds are exactly 0 on a log scale."""
        present = ~np.isnan(self.curves.values)
        zero = ((self.curves.values == 0) | ~present).all(axis=0) & present.any(axis=0)
        return self.x[zero] if self.log else self.x[:0]

    @property
    def loses_seeds(self) -> bool:
        """Whether fewer seeds have a last value than have any."""
        return bool(len(self.x)) and self.counts[-1] < self.n


@dataclass(frozen=True)
class LineAxes:
    """How lines are labelled."""

    title: str
    x_label: str
    log: bool
    names: tuple[str, ...] | None = None
    """What is at x = 0, 1, 2, ...; None if x is numeric."""
    ticks: tuple[str, ...] | None = None
    """What the axis calls them; default: their names."""
    remark: str = ""
    """A sentence at the end of the caption."""
    whole: bool = True
    """Whether x counts steps, so that a mean of several of them is shown as a whole number."""


@dataclass(frozen=True)
class _Plot:
    """Lines on one vertical scale, drawn in one panel per group of arms."""

    arms: tuple[ArmCurve, ...]
    labels: LineAxes
    frame: Frame
    y: Scale
    title: str = ""
    """What distinguishes it from the other plots of the chart."""
    about: str = ""
    """The same at length."""

    @property
    def drawn(self) -> tuple[ArmCurve, ...]:
        """The arms of which something can be drawn."""
        return tuple(arm for arm in self.arms if np.isfinite(arm.mean).any() or (self.labels.names and arm.zeros))


def arm_curves(
    request: ChartRequest, array: LabelledArray, x: np.ndarray, log: bool, points: int | None = POINTS
) -> tuple[ArmCurve, ...]:
    """Returns the lines of every arm of ``array`` (arm, seed, x), thinned to at most ``points`` points; None: all."""
    geometric = geometric_means(flushed(array.values), log, axis=1)
    bounds = request.bounds(array.values)
    arms = []
    for name in array.labels["arm"]:
        values = array.sel(arm=name).values.astype(np.float64)  # (seed, x)
        curves = thinned_curves(x, drawable(flushed(values)), array.labels["seed"], request.display.bin_by, points)
        mean, low, high = mean_interval(curves.values, geometric, bounds=bounds)
        if log:
            mean = np.where(mean > 0, mean, np.nan)
        overflows = bool((np.abs(values) > LARGEST).any())
        arms.append(ArmCurve(name, curves, mean, low, high, log, geometric, overflows))
    return tuple(arms)


def _plot(
    arms: tuple[ArmCurve, ...], labels: LineAxes, frame: Frame = FRAME, title: str = "", about: str = ""
) -> _Plot:
    """Returns the arms' lines with their vertical scale."""
    _, top, _, height = frame.box
    # The scale follows the range of the seeds, not the interval, which can be enormous with two seeds.
    everything = [np.concatenate([*arm.curves.ends(arm.log), arm.mean]) for arm in arms if arm.n]
    y = scale_over(np.concatenate([np.empty(0), *everything]), top + height, top, labels.log)
    return _Plot(arms, labels, frame, y, title, about)


def _chart(request: ChartRequest, title: str, plots: Sequence[_Plot]) -> Chart | None:
    """Returns the chart of one or several plots; None if no arm has a value."""
    plots = [plot for plot in plots if plot.drawn]
    if not plots:
        return None
    panels: list[Panel] = []
    data: list[dict[str, Any]] = []
    for index, plot in enumerate(plots):
        left, _, width, _ = plot.frame.box
        for group in request.groups([arm.name for arm in plot.arms]):
            here = [arm for name in group.arms for arm in plot.arms if arm.name == name]
            if not any(arm in plot.drawn for arm in here):
                continue
            edge = 0.5 if plot.labels.names else 0.0
            ends = np.concatenate([arm.x for arm in here])
            first, last = span(float(ends.min()), float(ends.max()))
            if plot.labels.names:  # the same sites at the same position, whichever an arm has
                first, last = 0.0, len(plot.labels.names) - 1.0
            x = Scale(first - edge, last + edge, left, left + width)
            others = [arm for arm in plot.drawn if arm.name not in group.arms][:MOST_OTHERS]
            panels.append(_panel(request, plot, group, here, others, x))
            data.append({"title": group.title, "x": scale_data(x), "arms": [arm.name for arm in here]}
                        | ({"plot": index} if len(plots) > 1 else {}))  # fmt: skip
    every = [_plot_data(request, plot) for plot in plots]
    labels = plots[0].labels
    chart_data = {"kind": "curves", "time": labels.x_label, "whole": labels.whole, "unit": request.display.unit,
                  **(every[0] if len(plots) == 1 else {"plots": every}), "panels": data}  # fmt: skip
    names = {arm: style.label for arm, style in request.styles.items()}
    caption = _caption(plots, names)
    if any(len(panel["arms"]) < len(plots[panel.get("plot", 0)].drawn) for panel in data):
        caption += " Grey: the arms of the other panels."
    return Chart(request.id, title, tuple(panels), caption, chart_data, multiples=len(plots) > 1)


def _plot_data(request: ChartRequest, plot: _Plot) -> dict[str, Any]:
    return {
        "names": list(plot.labels.names) if plot.labels.names else None,
        "y": scale_data(plot.y),
        "box": plot.frame.box,
        "arms": [_arm_data(arm, request.styles[arm.name]) for arm in plot.arms],
    }


def _arm_data(arm: ArmCurve, style: ArmStyle) -> dict[str, object]:
    return {
        "name": arm.name,
        "label": style.label,
        "colour": style.colour,
        "seeds": list(arm.curves.seeds[:MOST_SEEDS]),
        "x": positions(arm.x),
        "mean": rounded(arm.mean),
        "low": rounded(arm.low),
        "high": rounded(arm.high),
        "values": rounded(arm.curves.values[:MOST_SEEDS]),
        "n": arm.counts,
    }


def _caption(plots: Sequence[_Plot], names: Mapping[str, str]) -> str:
    arms = [arm for plot in plots for arm in plot.arms]
    drawn = {arm.name for plot in plots for arm in plot.drawn}
    kinds = {arm.geometric for plot in plots for arm in plot.drawn}
    mean = "Mean (geometric on log scales)" if len(kinds) > 1 else "Geometric mean" if True in kinds else "Mean"
    mean += f" over {seeds_text([arm.n for plot in plots for arm in plot.drawn])} per arm"
    sentences = [
        f"{mean}, its 95 % interval (dark band) and the range over seeds (light band).",
        *dict.fromkeys(plot.labels.remark for plot in plots),
    ]
    if any(arm.n > MOST_SEEDS for arm in arms):
        sentences.append(f"Hovering and the CSV file show the first {MOST_SEEDS} seeds of an arm.")
    if any(arm.zeros for arm in arms):
        if any(len(arm.zero_at) for plot in plots if plot.labels.names for arm in plot.arms):
            sentences.append("Hollow points at the lower edge are exactly 0, which a log scale cannot show.")
        else:
            counted = "" if any(arm.geometric for arm in arms) else ", but count in the means"
            sentences.append(f"A log scale cannot show values of exactly 0{counted}; hover, or see the CSV file.")
    losing = [f"{names[arm.name]} ({arm.counts[-1]} of {arm.n} left)" for arm in arms if arm.loses_seeds]
    if losing:
        sentences.append(f"Seeds that diverged are left out from that point on: {', '.join(dict.fromkeys(losing))}.")
    absent = {arm.name: arm.zeros for arm in arms if arm.name not in drawn}
    if absent:
        what = "Exactly 0 throughout" if all(absent.values()) else "No value"
        sentences.append(f"{what}: {', '.join(names[name] for name in absent)}.")
    if any((arm.low < plot.y.low).any() or (arm.high > plot.y.high).any() for plot in plots for arm in plot.drawn):
        sentences.append("Where the interval touches the frame, it extends beyond the axis.")
    if any(arm.overflows for arm in arms):
        sentences.append("Values that overflowed are left out.")
    return " ".join(sentence for sentence in sentences if sentence)


def _panel(
    request: ChartRequest,
    plot: _Plot,
    group: ArmGroup,
    arms: Sequence[ArmCurve],
    others: Sequence[ArmCurve],
    x: Scale,
) -> Panel:
    unit, labels, y, frame = request.display.unit, plot.labels, plot.y, plot.frame
    bands: list[object] = []
    for arm in others:
        here = (arm.x >= x.low) & (arm.x <= x.high)
        bands.append(element("path", class_="other", d=line(x(arm.x[here]), y(arm.mean[here]))))
    lines: list[object] = []
    for arm in arms:
        style = request.styles[arm.name]
        pixels = x(arm.x)
        inside = y(np.clip(arm.low, y.low, y.high)), y(np.clip(arm.high, y.low, y.high))
        if arm.n > 1:
            ends = map(y, arm.curves.ends(arm.log))
            bands.append(element("path", class_=f"range c{style.colour}", d=band(pixels, *ends)))
            bands.append(element("path", class_=f"interval c{style.colour}", d=band(pixels, *inside)))
        lines.append(element("path", class_=f"mean c{style.colour} d{style.dash}", d=line(pixels, y(arm.mean))))
        if labels.names or len(arm.x) == 1:
            dots = zip(pixels.tolist(), y(arm.mean).tolist(), strict=True)
            lines += [element("circle", class_=f"dot c{style.colour}", cx=a, cy=b, r=2.2) for a, b in dots if b == b]
        if labels.names:
            lines += [element("circle", class_=f"zero c{style.colour}", cx=at, cy=y.start, r=2.6)
                      for at in x(arm.zero_at).tolist()]  # fmt: skip
    scale = " (log scale)" if y.log else ""
    title = ": ".join(text for text in (plot.title, group.title) if text)
    heading = f"{labels.title}: {title}" if title else labels.title
    shown = ", ".join(request.styles[arm.name].label for arm in arms)
    description = f"{heading}; {unit} against {labels.x_label}, {shown}"
    around = axes(frame, x, y, labels.x_label, unit + scale, labels.ticks or labels.names)
    return Panel(title, picture(frame, description, around, *bands, *lines), about=plot.about)


def curves_panel(request: ChartRequest) -> Chart | None:
    """Returns the chart of a series with axes (arm, seed, step); None if it has fewer than two steps or no value."""
    array, display = request.curves(), request.display
    if array is None or len(array.labels["step"]) < 2:
        return None
    log = is_log(display, array.values)
    steps = step_positions(array)
    arms = arm_curves(request, array, steps, log)
    width = max((arm.curves.width for arm in arms), default=1)
    kept = "largest value" if display.bin_by == "max" else "mean"
    remark = f"Long series are thinned: each point is the {kept} of up to {width} steps." if width > 1 else ""
    labels = LineAxes(display.title, request.time, log, remark=remark, whole=are_whole(steps))
    return _chart(request, display.title, [_plot(arms, labels)])


def profile_panel(request: ChartRequest) -> Chart | None:
    """Returns the chart of the last values of a series with axes (arm, seed, step, site); None without sites.

    Of a network with many sites, each family of layers is a plot of its own over its depth.
    """
    array, display = request.array(), request.display
    if "site" not in array.labels:
        return None
    labels = {axis: array.labels[axis] for axis in ("arm", "seed", "site")}
    final = LabelledArray(array.name, values_at(array, 1.0), ("arm", "seed", "site"), labels)
    title = f"{display.title}, along depth"
    if array.shape[2] > 1:
        title += f" at the last {(request.time.split() or ['step'])[-1]}"
    arrangements = arrange(array.sites_of, never_ran(request.store, array))
    left_out = dict.fromkeys(name for arrangement in arrangements for name in arrangement.left_out)
    remark = f"Never ran, left out: {', '.join(left_out)}." if left_out else ""
    several = sum(len(arrangement.maps) for arrangement in arrangements) > 1
    plots = []
    for arrangement in arrangements:
        of_arms = ", ".join(request.styles[arm].label for arm in arrangement.arms) if len(arrangements) > 1 else ""
        for each in arrangement.maps:
            values = _selected(final, arrangement.arms, each)
            log = is_log_profile(display, values.values)
            arms = arm_curves(request, values, np.arange(len(each.sites), dtype=np.float64), log, points=None)
            x_label = str(display.options.get("sites", "site"))
            if several and each.pattern:
                x_label = "depth index"
            line_axes = LineAxes(title, x_label, log, each.sites, each.labels, remark)
            named = each.title or ("all layers" if several else "")
            heading = ", ".join(text for text in (named, of_arms) if text)
            plots.append(_plot(arms, line_axes, SMALL if several else FRAME, heading, each.pattern or heading))
    return _chart(request, title, plots)


def _selected(final: LabelledArray, arms: Sequence[str], drawn: DepthMap) -> LabelledArray:
    """Returns the part of an array (arm, seed, site) that a plot shows."""
    rows = [final.labels["arm"].index(arm) for arm in arms]
    columns = [final.labels["site"].index(site) for site in drawn.sites]
    labels = {**final.labels, "arm": tuple(arms), "site": drawn.sites}
    return LabelledArray(final.name, final.values[rows][..., columns], final.axes, labels)
