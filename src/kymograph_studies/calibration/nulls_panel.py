"""Panel ``nulls`` of the report: densities of a statistic under its nulls, with the observed values marked.

The panel takes everything from the display's ``options``, so that other studies can use it:

    {"observed": "deep_cosine",                        # the summary number that was observed
     "nulls": {"null_fresh": "fresh matrices", ...},   # series of draws, one draw per step, with their labels
     "site": "deep",                                   # the site of the draws; left out for series without sites
     "quantity": "mean cosine over the deep layers",   # optional: what it is, in running text
     "x_label": "mean cosine, deep layers",            # optional
     "short": "cosine",                                # optional: what it is, in a tooltip
     "observed_label": "the trained network",          # optional: where the observed values come from
     "remark": "..."}                                  # optional: a sentence at the end of the caption
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph import KymographError, SeriesDisplay, StoredRun
from kymograph._runs.summaries import is_number
from kymograph.figures import ArmStyle
from kymograph.panels import (
    Chart,
    ChartRequest,
    Frame,
    Key,
    Panel,
    Scale,
    element,
    labels,
    number,
    picture,
    scale_over,
    table_data,
)

PARTS = {
    "nulls": {
        "attribute": "nulls_panel",
        "about": "densities of a statistic under its nulls, with the observed values marked",
        "order": 10,
    },
}
FRAME = Frame(left=12, top=10)
BINS = 60
ROW = 46
"""Pixels from one null to the next, on the page."""
OVERLAP = 0.68
"""The height of a density, in rows; its name is above it."""
TableRow = tuple[str, str, int | None, float | None, float | None, float]
"""Panel, null or "observed", seed, the ends of a bin, and the density or the observed value."""


@dataclass(frozen=True)
class NullOptions:
    """A display's options about its nulls."""

    observed: str
    nulls: Mapping[str, str]
    site: str | None
    quantity: str
    x_label: str
    short: str
    observed_label: str
    remark: str

    @staticmethod
    def of(display: SeriesDisplay) -> NullOptions:
        """Returns the options of a display; raises unless they name the observed number and the nulls."""
        options: Any = display.options
        nulls = options.get("nulls") if isinstance(options, Mapping) else None
        if not isinstance(nulls, Mapping) or not isinstance(options.get("observed"), str):
            raise KymographError(
                f"the display of {display.series!r} as nulls needs `options` with 'observed', a summary number, and "
                "'nulls', the series of draws with their labels"
            )
        texts = {name: value for name, value in options.items() if isinstance(value, str)}
        observed = texts["observed"]
        quantity = texts.get("quantity", observed.replace("_", " "))
        return NullOptions(
            observed=observed,
            nulls={str(name): str(label) for name, label in nulls.items()},
            site=texts.get("site"),
            quantity=quantity,
            x_label=texts.get("x_label", quantity),
            short=texts.get("short", quantity),
            observed_label=texts.get("observed_label", "the observed values"),
            remark=texts.get("remark", ""),
        )


def nulls_panel(request: ChartRequest) -> Chart | None:
    """Returns one picture per arm: the density of each null's draws over all seeds, and a line per observed value."""
    options = NullOptions.of(request.display)
    panels: list[Panel] = []
    rows: list[TableRow] = []
    most_draws = 0
    for arm in request.store.arms:
        runs = [run for run in request.store.select(arms=[arm]) if options.observed in run.summary]
        draws = {name: _draws(runs, name, options.site) for name in options.nulls}
        draws = {name: values for name, values in draws.items() if len(values)}
        with_nulls = [run for run in runs if options.nulls.keys() & run.series.keys()]
        values_by_seed = [(run.seed, run.summary[options.observed]) for run in with_nulls]
        observed = [(seed, float(value)) for seed, value in values_by_seed if is_number(value)]
        if not draws or not observed:
            continue
        most_draws = max([most_draws, *(len(values) for values in draws.values())])
        panel, table = _panel(request.styles[arm], draws, observed, request.display, options)
        panels.append(panel)
        rows += table
    if not panels:
        return None
    caption = (
        f"Ridges: density of the {options.quantity} under each null, from up to {most_draws:,} draws pooled over "
        f"seeds, scaled to the height of the row. Vertical lines: {options.observed_label}, one per seed. A line "
        "inside a ridge is consistent with that null."
    )
    caption = f"{caption} {options.remark}".strip()
    data = table_data(("panel", "what", "seed", "from", "to", "value"), rows)
    return Chart(request.id, request.display.title, tuple(panels), caption, data, series=tuple(options.nulls))


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
    style: ArmStyle,
    draws: Mapping[str, np.ndarray],
    observed: Sequence[tuple[int, float]],
    display: SeriesDisplay,
    options: NullOptions,
) -> tuple[Panel, list[TableRow]]:
    """Returns one arm's panel, a density per null and a line per observed value, with the rows of its table."""
    everything = np.concatenate([*draws.values(), [value for _, value in observed]])
    frame = Frame(height=FRAME.top + ROW * len(draws) + FRAME.bottom, left=FRAME.left, top=FRAME.top)
    left, top, width, height = frame.box
    x = scale_over(everything, left, left + width, False)
    lowest, highest = float(everything.min()), float(everything.max())
    edges = np.linspace(lowest, highest, BINS + 1) if highest > lowest else np.array([x.low, x.high])
    shapes: list[object] = []
    rows: list[TableRow] = []
    targets: list[object] = []  # transparent, in front of everything: what the pointer hovers over
    for index, (name, values) in enumerate(draws.items()):
        density = np.histogram(values, edges, density=True)[0]
        base = top + ROW * (index + 1)
        y = Scale(0.0, float(density.max()), base, base - ROW * OVERLAP)
        corners = [(x.at(edges[0]), float(base))]
        for low, high, value in zip(edges[:-1].tolist(), edges[1:].tolist(), density.tolist(), strict=True):
            corners += [(x.at(low), y.at(value)), (x.at(high), y.at(value))]
            rows.append((style.label, name, None, low, high, value))
            ends = f"{number(low, 3)} to {number(high, 3)}"
            tip = f"{options.nulls[name]}, {options.short} {ends}: density {number(value, 3)}"
            targets.append(element("rect", class_="hit", data_tip=tip, x=x.at(low), y=base - ROW,
                                   width=x.at(high) - x.at(low), height=ROW))  # fmt: skip
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in [*corners, (x.at(edges[-1]), base)]) + "Z"
        shapes.append(element("path", class_="ridge", d=path))
        title = f"{options.nulls[name]}, {len(values):,} draws"
        shapes.append(element("text", title, class_="label", x=left, y=base - ROW + 12))
    for seed, value in observed:
        at = x.at(value)
        shapes.append(element("line", class_=f"mean c{style.colour}", x1=at, x2=at, y1=top, y2=top + height))
        rows.append((style.label, "observed", seed, None, None, value))
        tip = f"seed {seed}: observed {options.short} {number(value)}"
        targets.append(element("rect", class_="hit", data_tip=tip, x=at - 4, y=top, width=8, height=height))
    content = f"null densities of the {options.quantity} and {len(observed)} observed values"
    shown = [*_axis(frame, x, options.x_label), *shapes, *targets]
    key = Key(f"{style.label}, observed", style.colour, f"n = {len(observed)}")
    return Panel(style.label, picture(frame, f"{display.title}, {style.label}: {content}", *shown), (key,)), rows


def _axis(frame: Frame, x: Scale, label: str) -> Iterator[object]:
    left, top, width, height = frame.box
    bottom, ticks = top + height, x.ticks()
    for tick, text in zip(ticks, labels(ticks), strict=True):
        yield element("line", class_="grid", x1=x.at(tick), x2=x.at(tick), y1=top, y2=bottom)
        yield element("text", text, x=x.at(tick), y=bottom + 15, text_anchor="middle")
    yield element("line", class_="axis", x1=left, x2=left + width, y1=bottom, y2=bottom)
    yield element("text", label, class_="label", x=left + width / 2, y=frame.height - 4, text_anchor="middle")
