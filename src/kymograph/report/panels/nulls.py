"""Null histograms: what chance gives, with every seed's observed value marked."""

from __future__ import annotations

import math

import numpy as np

from kymograph.report.chart import Chart, Key, Panel, table_data
from kymograph.report.grouping import Look
from kymograph.report.svg import Frame, Scale, axes, element, number, picture, scale_over
from kymograph.runs.store import Store, StoredRun

FRAME = Frame()
NULLS = {
    "fresh": "fresh matrices",
    "rows": "rows permuted",
    "columns": "columns permuted",
    "samples": "images shuffled",
    "directions": "random directions",
}
BINS = 40
OBSERVED = 1  # the palette's place of the observed values, as in the study's own figure


def null_chart(chart_id: str, store: Store, look: Look) -> Chart | None:
    """Returns a panel per arm: densities of the deep mean's null draws over all seeds, a line per observed value."""
    panels, rows = [], []
    drawn = 0
    for arm in store.arms:
        runs = [run for run in store.select(arms=[arm]) if "null_fresh" in run.series and "deep_cosine" in run.summary]
        if not runs:
            continue
        nulls = {name: _draws(runs, name) for name in NULLS}
        nulls = {name: values for name, values in nulls.items() if len(values)}
        known = [(run.seed, run.summary["deep_cosine"]) for run in runs]
        observed = [(seed, float(value)) for seed, value in known if isinstance(value, int | float)]
        observed = [(seed, value) for seed, value in observed if math.isfinite(value)]
        if not nulls or not observed:
            continue
        drawn = max([drawn, *(len(values) for values in nulls.values())])
        panel, table = _panel(arm, nulls, observed, look)
        panels.append(panel)
        rows += table
    if not panels:
        return None
    caption = (
        f"Densities of the mean cosine over the deep layers, up to {drawn:,} draws of each null pooled over seeds; "
        "vertical lines: the network's own feedback matrices, one line a seed. A line within a density is what that "
        "null gives by chance; images shuffled and random directions are narrow, because they break what images share."
    )
    data = table_data(("panel", "what", "seed", "from", "to", "value"), rows)
    return Chart(chart_id, look.title, tuple(panels), caption, data)


def _draws(runs: list[StoredRun], name: str) -> np.ndarray:
    parts = [run.series[f"null_{name}"].value[:, -1] for run in runs if f"null_{name}" in run.series]
    values = np.concatenate(parts) if parts else np.empty(0)
    return values[np.isfinite(values)]


def _panel(
    arm: str, nulls: dict[str, np.ndarray], observed: list[tuple[int, float]], look: Look
) -> tuple[Panel, list[tuple]]:
    left, top, width, height = FRAME.box
    everything = np.concatenate([*nulls.values(), [value for _, value in observed]])
    x = scale_over(everything, left, left + width, False)
    least, most_ = float(everything.min()), float(everything.max())
    edges = np.linspace(least, most_, BINS + 1) if most_ > least else np.array([x.low, x.high])
    heights = {name: np.histogram(values, edges, density=True)[0] for name, values in nulls.items()}
    most = max(float(values.max()) for values in heights.values())
    y = Scale(0.0, most * 1.05, top + height, top)
    shapes, keys = [], []
    rows: list[tuple] = []
    for (name, values), place in zip(heights.items(), (2, 0, 3, 4, 5), strict=False):
        points = [(x.at(edges[0]), y.at(0.0))]
        for low, high, value in zip(edges[:-1], edges[1:], values, strict=True):
            points += [(x.at(low), y.at(value)), (x.at(high), y.at(value))]
            rows.append((arm, f"null {name}", None, float(low), float(high), float(value)))
        points.append((x.at(edges[-1]), y.at(0.0)))
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points) + "Z"
        shapes.append(element("path", class_=f"interval c{place}", d=path))
        shapes.append(element("path", class_=f"outline c{place}", d=path))
        keys.append(Key(f"null: {NULLS[name]}", place, f"n = {len(nulls[name]):,} draws", "area"))
    for seed, value in observed:
        at = x.at(value)
        shapes.append(element("line", class_=f"mean c{OBSERVED}", x1=at, x2=at, y1=top, y2=top + height))
        rows.append((arm, "observed", seed, None, None, value))
    hits: list[object] = []
    for place, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        inside = "; ".join(f"{NULLS[name]} {number(float(values[place]), 3)}" for name, values in heights.items())
        tip = f"cosine {number(low, 3)} to {number(high, 3)}: density {inside}"
        hits.append(element("rect", class_="hit", data_tip=tip, x=x.at(low), y=top, width=x.at(high) - x.at(low),
                            height=height))  # fmt: skip
    for seed, value in observed:
        tip = f"seed {seed}: observed cosine {number(value)}"
        hits.append(element("rect", class_="hit", data_tip=tip, x=x.at(value) - 4, y=top, width=8, height=height))
    keys.append(Key("observed", OBSERVED, f"n = {len(observed)}"))
    label = f"{look.title}, {arm}: null densities of the mean deep cosine and {len(observed)} observed values"
    return Panel(
        arm,
        picture(FRAME, label, axes(FRAME, x, y, "mean cosine, deep layers", look.unit), *shapes, *hits),
        tuple(keys),
    ), rows
