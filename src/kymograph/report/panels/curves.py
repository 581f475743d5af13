"""Curves over training and profiles over depth: mean, 95 % interval and range over seeds, each seed on hover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph.figures.seed_curves import binned, interval
from kymograph.report.chart import Chart, Key, Panel, rounded, scale_data, seeds_text, spans_decades
from kymograph.report.grouping import Look, panels_of
from kymograph.report.svg import Frame, Scale, axes, band, element, line, picture, scale_over
from kymograph.runs.store import LabelledArray

POINTS = 200  # the most that a curve keeps
LARGEST = 1e250
FRAME = Frame()


@dataclass(frozen=True)
class _Arm:
    """One arm's curves: ``values`` (seed, x) and what is drawn of them."""

    name: str
    seeds: tuple[int, ...]
    x: np.ndarray
    values: np.ndarray
    """What was measured; a log scale has no place for some of it."""
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log: bool
    width: int
    """How many steps one point stands for."""
    overflows: bool
    zeros: bool
    """Whether the log scale leaves out values of exactly 0."""

    @property
    def counts(self) -> np.ndarray:
        """How many seeds have a value at every x."""
        return (~np.isnan(self.values)).sum(axis=0)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest seed at every x."""
        shown = np.where(self.values > 0, self.values, np.nan) if self.log else self.values
        there = ~np.isnan(shown).all(axis=0)
        least, most = np.full(len(self.x), np.nan), np.full(len(self.x), np.nan)
        least[there] = np.nanmin(shown[:, there], axis=0)
        most[there] = np.nanmax(shown[:, there], axis=0)
        return least, most


def curve_chart(chart_id: str, study: str, array: LabelledArray, look: Look, time: str) -> Chart | None:
    """Returns the chart of a series with axes (arm, seed, step); None if no run has a value."""
    log = spans_decades(array.values) if look.log is None else look.log
    steps = np.array(array.labels["step"], dtype=np.float64)
    arms = {name: _arm(array, name, steps, log, look.bin_by) for name in array.labels["arm"]}
    width = max((arm.width for arm in arms.values()), default=1)
    what = "largest value" if look.bin_by == "max" else "mean"
    thinned = f" Long series are thinned: each point is the {what} of up to {width} steps." if width > 1 else ""
    return _chart(chart_id, study, arms, look, log, time, None, look.title, thinned)


def profile_chart(chart_id: str, study: str, array: LabelledArray, look: Look, time: str) -> Chart | None:
    """Returns the chart of a series' last values against its sites, axes (arm, seed, step, site)."""
    sites = array.labels["site"]
    last = np.full((len(array.labels["arm"]), len(array.labels["seed"]), len(sites)), np.nan)
    for place, values in enumerate(array.values):  # (seed, step, site); arms may end at different steps
        there = np.flatnonzero((~np.isnan(values)).any(axis=(0, 2)))
        if len(there):
            last[place] = values[:, there[-1]]
    labels = {"arm": array.labels["arm"], "seed": array.labels["seed"], "step": tuple(range(len(sites)))}
    final = LabelledArray(array.name, last, ("arm", "seed", "step"), labels)
    log = spans_decades(last) if look.log is None else look.log
    steps = np.arange(len(sites), dtype=np.float64)
    arms = {name: _arm(final, name, steps, log, look.bin_by) for name in array.labels["arm"]}
    title = f"{look.title}, along depth" + (f" at the last {time.split()[-1]}" if array.shape[2] > 1 else "")
    return _chart(chart_id, study, arms, look, log, "site", tuple(map(str, sites)), title, "")


def _arm(array: LabelledArray, name: str, steps: np.ndarray, log: bool, how: str) -> _Arm:
    values = array.sel(arm=name).values.astype(np.float64)  # (seed, x)
    beyond = np.abs(values) > LARGEST  # no mean and no scale can be taken of such numbers
    overflows = bool(beyond.any())
    values = np.where(beyond, np.nan, np.where(np.abs(values) < 1 / LARGEST, 0.0, values))
    present = np.atleast_1d(~np.isnan(values).all(axis=1))
    seeds = tuple(seed for seed, here in zip(array.labels["seed"], present, strict=True) if here)
    values = values[present]
    inside = ~np.isnan(values).all(axis=0) if len(values) else np.zeros(len(steps), dtype=bool)
    if not inside.any():
        nothing = np.empty(0)
        return _Arm(name, (), nothing, np.empty((0, 0)), nothing, nothing, nothing, log, 1, overflows, False)
    x, values = binned(steps[inside], values[:, inside], "max" if how == "max" else "mean", POINTS)
    shown = np.where(values > 0, values, np.nan) if log else values
    mean, low, high = interval(shown, log)
    zeros = bool(log and (values == 0).any())
    return _Arm(name, seeds, x, values, mean, low, high, log, -(-int(inside.sum()) // POINTS), overflows, zeros)


def _chart(
    chart_id: str,
    study: str,
    arms: dict[str, _Arm],
    look: Look,
    log: bool,
    x_label: str,
    names: tuple[str, ...] | None,
    title: str,
    remark: str,
) -> Chart | None:
    drawn = [arm for arm in arms.values() if np.isfinite(arm.mean).any()]
    if not drawn:
        return None
    left, top, width, height = FRAME.box
    # The range of the seeds decides the scale, not the interval: with two seeds the latter may be enormous.
    everything = np.concatenate([np.concatenate([*arm.ends, arm.mean]) for arm in drawn])
    y = scale_over(everything, top + height, top, log)
    panels, data = [], []
    for panel_title, members in panels_of(study, list(arms)):
        here = [arms[name] for name in members]
        if not any(arm in drawn for arm in here):
            continue
        edge = 0.5 if names else 0.0
        ends = np.concatenate([arm.x for arm in here])
        span = (ends.min() - edge, max(ends.max(), ends.min() + 1) + edge)
        x = Scale(float(span[0]), float(span[1]), left, left + width)
        panels.append(_panel(panel_title, here, x, y, x_label, look.unit, names, title))
        data.append(
            {
                "title": panel_title,
                "x": scale_data(x),
                "arms": [
                    {
                        "name": arm.name,
                        "seeds": list(arm.seeds),
                        "x": rounded(arm.x),
                        "mean": rounded(arm.mean),
                        "low": rounded(arm.low),
                        "high": rounded(arm.high),
                        "values": rounded(arm.values),
                        "n": arm.counts.tolist(),
                    }
                    for arm in here
                ],
            }
        )
    caption = (
        f"{'Geometric mean' if log else 'Mean'} over {seeds_text([len(arm.seeds) for arm in drawn])} an arm, its 95 % "
        f"interval (strong band) and the range of the seeds (faint band).{remark}"
    )
    if any(arm.zeros for arm in arms.values()):
        caption += " Values of exactly 0 have no place on the log scale; they are read on hover and in the CSV."
    if any(_lost(arm) for arm in arms.values()):
        caption += " Seeds that diverged are left out from there on."
    if any((arm.low < y.low).any() or (arm.high > y.high).any() for arm in drawn):
        caption += " The interval goes beyond the axis where it meets the frame."
    if any(arm.overflows for arm in arms.values()):
        caption += " Values that overflowed are left out."
    facts = {"kind": "curves", "time": x_label, "unit": look.unit, "names": list(names) if names else None,
             "y": scale_data(y), "box": FRAME.box, "panels": data}  # fmt: skip
    return Chart(chart_id, title, tuple(panels), caption, facts)


def _lost(arm: _Arm) -> bool:
    """Says whether fewer seeds have a last value than have any."""
    return bool(len(arm.x) and arm.counts[-1] < len(arm.seeds))


def _panel(
    title: str,
    arms: Sequence[_Arm],
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    names: tuple[str, ...] | None,
    chart: str,
) -> Panel:
    bands, lines, keys = [], [], []
    for place, arm in enumerate(arms):
        pixels = x(arm.x)
        inside = y(np.clip(arm.low, y.low, y.high)), y(np.clip(arm.high, y.low, y.high))
        if len(arm.seeds) > 1:
            bands.append(element("path", class_=f"range c{place}", d=band(pixels, y(arm.ends[0]), y(arm.ends[1]))))
            bands.append(element("path", class_=f"interval c{place}", d=band(pixels, *inside)))
        lines.append(element("path", class_=f"mean c{place}", d=line(pixels, y(arm.mean))))
        if names or len(arm.x) == 1:
            dots = zip(pixels.tolist(), y(arm.mean).tolist(), strict=True)
            lines += [element("circle", class_=f"dot c{place}", cx=a, cy=b, r=2.2) for a, b in dots if b == b]
        note = f"n = {len(arm.seeds)}"
        if _lost(arm):
            note += f", {arm.counts[-1]} at the end"
        if not np.isfinite(arm.mean).any():
            note += ", exactly 0 throughout" if arm.zeros else ", no value"
        keys.append(Key(arm.name, place, note))
    scale = " (log scale)" if y.log else ""
    label = (
        f"{chart}{': ' + title if title else ''}; {y_label} against {x_label}, {', '.join(arm.name for arm in arms)}"
    )
    return Panel(
        title,
        picture(FRAME, label, axes(FRAME, x, y, x_label, y_label + scale, names), *bands, *lines),
        tuple(keys),
    )
