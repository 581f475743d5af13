"""Null distributions: densities of a statistic under each null, with every seed's observed value marked.

The display's ``facts`` say what is compared:

    {"observed": "deep_cosine",                        # the summary number that was observed
     "nulls": {"null_fresh": "fresh matrices", ...},   # series of draws, one draw per step, and what to call each
     "site": "deep",                                   # the site of the draws; left out for series without sites
     "quantity": "mean cosine over the deep layers",   # optional: what it is, in running text
     "x_label": "mean cosine, deep layers",            # optional
     "short": "cosine",                                # optional: what it is, in a tooltip
     "observed_label": "the trained network",          # optional: where the observed values come from
     "remark": "..."}                                  # optional: a sentence at the end of the caption
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.report.chart import Chart, ChartRequest, Key, Panel, table_data
from kymograph.report.svg import Frame, Scale, axes, element, number, picture, scale_over
from kymograph.runs.declaration import SeriesDisplay
from kymograph.runs.headlines import is_number
from kymograph.runs.stored import StoredRun

PART = {"about": "densities of a statistic under its nulls, with the observed values marked", "order": 10}
FRAME = Frame()
BINS = 40
OBSERVED_COLOUR = 1
NULL_COLOURS = (2, 0, 3, 4, 5)


@dataclass(frozen=True)
class NullFacts:
    """What a display says about its nulls."""

    observed: str
    nulls: Mapping[str, str]
    site: str | None
    quantity: str
    x_label: str
    short: str
    observed_label: str
    remark: str

    @staticmethod
    def of(display: SeriesDisplay) -> NullFacts:
        """Returns the facts of a display; raises if it does not say what was observed, or under which nulls."""
        facts: Any = display.facts
        nulls = facts.get("nulls") if isinstance(facts, Mapping) else None
        if not isinstance(nulls, Mapping) or not isinstance(facts.get("observed"), str):
            raise KymographError(
                f"the display of {display.series!r} as nulls needs `facts` with 'observed', a summary number, and "
                "'nulls', the series of draws with their labels"
            )
        texts = {name: value for name, value in facts.items() if isinstance(value, str)}
        observed = texts["observed"]
        quantity = texts.get("quantity", observed.replace("_", " "))
        return NullFacts(
            observed=observed,
            nulls={str(name): str(label) for name, label in nulls.items()},
            site=texts.get("site"),
            quantity=quantity,
            x_label=texts.get("x_label", quantity),
            short=texts.get("short", quantity),
            observed_label=texts.get("observed_label", "the observed values"),
            remark=texts.get("remark", ""),
        )


def draw(request: ChartRequest) -> Chart | None:
    """Returns one picture per arm: densities of the draws of each null over all seeds, a line per observed value."""
    facts = NullFacts.of(request.display)
    panels: list[Panel] = []
    rows: list[tuple] = []
    most_draws = 0
    for arm in request.store.arms:
        runs = [run for run in request.store.select(arms=[arm]) if facts.observed in run.summary]
        draws = {name: _draws(runs, name, facts.site) for name in facts.nulls}
        draws = {name: values for name, values in draws.items() if len(values)}
        observed = [(run.seed, run.summary[facts.observed]) for run in runs if facts.nulls.keys() & run.series.keys()]
        observed = [(seed, float(value)) for seed, value in observed if is_number(value)]
        if not draws or not observed:
            continue
        most_draws = max([most_draws, *(len(values) for values in draws.values())])
        panel, table = _panel(arm, draws, observed, request.display, facts)
        panels.append(panel)
        rows += table
    if not panels:
        return None
    caption = (
        f"Densities of the {facts.quantity}, up to {most_draws:,} draws of each null pooled over seeds; vertical "
        f"lines: {facts.observed_label}, one per seed. A line within a density is what that null gives by chance."
    )
    data = table_data(("panel", "what", "seed", "from", "to", "value"), rows)
    caption = f"{caption} {facts.remark}".strip()
    return Chart(request.id, request.display.title, tuple(panels), caption, data, series=tuple(facts.nulls))


def _draws(runs: Sequence[StoredRun], name: str, site: str | None) -> np.ndarray:
    """Returns the finite draws of one null over all ``runs``, at ``site`` if the series has sites."""
    parts = []
    for run in runs:
        series = run.series.get(name)
        if series is None:
            continue
        if series.sites is None:
            parts.append(series.value)
        elif site in series.sites:
            parts.append(series.value[:, series.sites.index(site)])
    values = np.concatenate(parts) if parts else np.empty(0)
    return values[np.isfinite(values)]


def _panel(
    arm: str,
    draws: Mapping[str, np.ndarray],
    observed: Sequence[tuple[int, float]],
    display: SeriesDisplay,
    facts: NullFacts,
) -> tuple[Panel, list[tuple]]:
    left, top, width, height = FRAME.box
    everything = np.concatenate([*draws.values(), [value for _, value in observed]])
    x = scale_over(everything, left, left + width, False)
    lowest, highest = float(everything.min()), float(everything.max())
    edges = np.linspace(lowest, highest, BINS + 1) if highest > lowest else np.array([x.low, x.high])
    densities = {name: np.histogram(values, edges, density=True)[0] for name, values in draws.items()}
    peak = max(float(values.max()) for values in densities.values())
    y = Scale(0.0, peak * 1.05, top + height, top)
    shapes, keys = [], []
    rows: list[tuple] = []
    for index, (name, values) in enumerate(densities.items()):
        colour = NULL_COLOURS[index % len(NULL_COLOURS)]
        points = [(x.at(edges[0]), y.at(0.0))]
        for low, high, value in zip(edges[:-1], edges[1:], values, strict=True):
            points += [(x.at(low), y.at(value)), (x.at(high), y.at(value))]
            rows.append((arm, name, None, float(low), float(high), float(value)))
        points.append((x.at(edges[-1]), y.at(0.0)))
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points) + "Z"
        shapes.append(element("path", class_=f"interval c{colour}", d=path))
        shapes.append(element("path", class_=f"outline c{colour}", d=path))
        keys.append(Key(f"null: {facts.nulls[name]}", colour, f"n = {len(draws[name]):,} draws", "area"))
    for seed, value in observed:
        at = x.at(value)
        shapes.append(element("line", class_=f"mean c{OBSERVED_COLOUR}", x1=at, x2=at, y1=top, y2=top + height))
        rows.append((arm, "observed", seed, None, None, value))
    targets: list[object] = []  # transparent, in front of everything: what the pointer meets
    for index, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        inside = "; ".join(f"{facts.nulls[name]} {number(float(d[index]), 3)}" for name, d in densities.items())
        tip = f"{facts.short} {number(low, 3)} to {number(high, 3)}: density {inside}"
        targets.append(element("rect", class_="hit", data_tip=tip, x=x.at(low), y=top, width=x.at(high) - x.at(low),
                               height=height))  # fmt: skip
    for seed, value in observed:
        tip = f"seed {seed}: observed {facts.short} {number(value)}"
        targets.append(element("rect", class_="hit", data_tip=tip, x=x.at(value) - 4, y=top, width=8, height=height))
    keys.append(Key("observed", OBSERVED_COLOUR, f"n = {len(observed)}"))
    label = f"{display.title}, {arm}: null densities of the {facts.quantity} and {len(observed)} observed values"
    frame = axes(FRAME, x, y, facts.x_label, display.unit)
    return Panel(arm, picture(FRAME, label, frame, *shapes, *targets), tuple(keys)), rows
