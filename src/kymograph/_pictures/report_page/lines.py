"""Line charts of the page: series over training and along depth, every arm's mean, interval and range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kymograph._pictures.report_page.charts import (
    Chart,
    ChartRequest,
    Panel,
    positions,
    rounded,
    scale_data,
    seeds_text,
)
from kymograph._pictures.report_page.svg import Frame, Scale, axes, band, element, line, picture, scale_over
from kymograph._pictures.scales import LARGEST, drawable, flushed, geometric_means, is_log
from kymograph._pictures.series import SeedCurves, are_whole, span, step_positions, thinned_curves, values_at
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
        """Whether the log scale omits values of exactly 0."""
        return bool(self.log and (self.curves.values == 0).any())

    @property
    def loses_seeds(self) -> bool:
        """Whether fewer seeds have a last value than have any."""
        return bool(len(self.x)) and self.counts[-1] < self.n


@dataclass(frozen=True)
class LineAxes:
    """How a chart of lines is labelled."""

    title: str
    x_label: str
    log: bool
    names: tuple[str, ...] | None = None
    """Labels at x = 0, 1, 2, ...; None if x is numeric."""
    remark: str = ""
    """A sentence at the end of the caption."""
    whole: bool = True
    """Whether x counts steps, so that a mean of several of them is shown as a whole number."""


def arm_curves(request: ChartRequest, array: LabelledArray, x: np.ndarray, log: bool) -> dict[str, ArmCurve]:
    """Returns the lines of every arm of ``array`` (arm, seed, x), thinned to `POINTS` points."""
    geometric = geometric_means(flushed(array.values), log, axis=1)
    bounds = request.bounds(array.values)
    arms = {}
    for name in array.labels["arm"]:
        values = array.sel(arm=name).values.astype(np.float64)  # (seed, x)
        curves = thinned_curves(x, drawable(flushed(values)), array.labels["seed"], request.display.bin_by, POINTS)
        mean, low, high = mean_interval(curves.values, geometric, bounds=bounds)
        if log:
            mean = np.where(mean > 0, mean, np.nan)
        overflows = bool((np.abs(values) > LARGEST).any())
        arms[name] = ArmCurve(name, curves, mean, low, high, log, geometric, overflows)
    return arms


def line_chart(request: ChartRequest, arms: Mapping[str, ArmCurve], labels: LineAxes) -> Chart | None:
    """Returns the chart of the arms' lines; None if no arm has a value."""
    drawn = [arm for arm in arms.values() if np.isfinite(arm.mean).any()]
    if not drawn:
        return None
    left, top, width, height = FRAME.box
    # The scale follows the range of the seeds, not the interval, which can be enormous with two seeds.
    everything = np.concatenate([np.concatenate([*arm.curves.ends(arm.log), arm.mean]) for arm in drawn])
    y = scale_over(everything, top + height, top, labels.log)
    panels, data = [], []
    for group in request.groups(list(arms)):
        here = [arms[name] for name in group.arms]
        if not any(arm in drawn for arm in here):
            continue
        edge = 0.5 if labels.names else 0.0
        ends = np.concatenate([arm.x for arm in here])
        first, last = span(float(ends.min()), float(ends.max()))
        x = Scale(first - edge, last + edge, left, left + width)
        others = [arm for arm in drawn if arm.name not in group.arms][:MOST_OTHERS]
        panels.append(_panel(request, group.title, here, others, x, y, labels))
        data.append({"title": group.title, "x": scale_data(x), "arms": [arm.name for arm in here]})
    chart_data = {"kind": "curves", "time": labels.x_label, "whole": labels.whole, "unit": request.display.unit,
             "names": list(labels.names) if labels.names else None, "y": scale_data(y), "box": FRAME.box,
             "arms": [_arm_data(arm, request.styles[arm.name]) for arm in arms.values()],
             "panels": data}  # fmt: skip
    names = {arm: style.label for arm, style in request.styles.items()}
    caption = _caption(list(arms.values()), drawn, y, labels, names)
    if any(len(panel["arms"]) < len(drawn) for panel in data):
        caption += " Grey: the arms of the other panels."
    return Chart(request.id, labels.title, tuple(panels), caption, chart_data)


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


def _caption(
    arms: Sequence[ArmCurve], drawn: Sequence[ArmCurve], y: Scale, labels: LineAxes, names: Mapping[str, str]
) -> str:
    mean = "Geometric mean" if any(arm.geometric for arm in arms) else "Mean"
    sentences = [
        f"{mean} over {seeds_text([arm.n for arm in drawn])} per arm, its 95 % interval (dark band) and the "
        "range over seeds (light band).",
        labels.remark,
    ]
    if any(arm.n > MOST_SEEDS for arm in arms):
        sentences.append(f"Hovering and the CSV file show the first {MOST_SEEDS} seeds of an arm.")
    if any(arm.zeros for arm in arms):
        counted = "" if any(arm.geometric for arm in arms) else ", but count in the means"
        sentences.append(f"Values of exactly 0 cannot be shown on a log scale{counted}; hover, or see the CSV file.")
    losing = [f"{names[arm.name]} ({arm.counts[-1]} of {arm.n} left)" for arm in arms if arm.loses_seeds]
    if losing:
        sentences.append(f"Seeds that diverged are left out from that point on: {', '.join(losing)}.")
    absent = [names[arm.name] for arm in arms if arm not in drawn]
    if absent:
        zeros = all(arm.zeros for arm in arms if arm not in drawn)
        sentences.append(f"{'Exactly 0 throughout' if zeros else 'No value'}: {', '.join(absent)}.")
    if any((arm.low < y.low).any() or (arm.high > y.high).any() for arm in drawn):
        sentences.append("Where the interval touches the frame, it extends beyond the axis.")
    if any(arm.overflows for arm in arms):
        sentences.append("Values that overflowed are left out.")
    return " ".join(sentence for sentence in sentences if sentence)


def _panel(
    request: ChartRequest,
    title: str,
    arms: Sequence[ArmCurve],
    others: Sequence[ArmCurve],
    x: Scale,
    y: Scale,
    labels: LineAxes,
) -> Panel:
    unit = request.display.unit
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
    scale = " (log scale)" if y.log else ""
    heading = f"{labels.title}: {title}" if title else labels.title
    shown = ", ".join(request.styles[arm.name].label for arm in arms)
    description = f"{heading}; {unit} against {labels.x_label}, {shown}"
    frame = axes(FRAME, x, y, labels.x_label, unit + scale, labels.names)
    return Panel(title, picture(FRAME, description, frame, *bands, *lines))


def curves_panel(request: ChartRequest) -> Chart | None:
    """Returns the chart of a series with axes (arm, seed, step); None if it has fewer than two steps or no value."""
    array, display = request.curves(), request.display
    if array is None or len(array.labels["step"]) < 2:
        return None
    log = is_log(display, array.values)
    steps = step_positions(array)
    arms = arm_curves(request, array, steps, log)
    width = max((arm.curves.width for arm in arms.values()), default=1)
    kept = "largest value" if display.bin_by == "max" else "mean"
    remark = f"Long series are thinned: each point is the {kept} of up to {width} steps." if width > 1 else ""
    labels = LineAxes(display.title, request.time, log, remark=remark, whole=are_whole(steps))
    return line_chart(request, arms, labels)


def profile_panel(request: ChartRequest) -> Chart | None:
    """Returns the chart of the last values of a series with axes (arm, seed, step, site); None without sites."""
    array, display = request.array(), request.display
    if "site" not in array.labels:
        return None
    sites = array.labels["site"]
    labels = {"arm": array.labels["arm"], "seed": array.labels["seed"], "site": sites}
    final = LabelledArray(array.name, values_at(array, 1.0), ("arm", "seed", "site"), labels)
    log = is_log(display, final.values)
    arms = arm_curves(request, final, np.arange(len(sites), dtype=np.float64), log)
    title = f"{display.title}, along depth"
    if array.shape[2] > 1:
        title += f" at the last {(request.time.split() or ['step'])[-1]}"
    x_label = str(display.options.get("sites", "site"))
    return line_chart(request, arms, LineAxes(title, x_label, log, tuple(map(str, sites))))
