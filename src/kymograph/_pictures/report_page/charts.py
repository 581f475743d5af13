"""A chart of the page, the request that it is drawn from, and which arms share a panel."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from kymograph._errors import KymographError
from kymograph._pictures.report_page.svg import Scale
from kymograph._pictures.styles import ArmStyle, arm_styles
from kymograph._runs.declaration import Declaration, SeriesDisplay, bounds_of
from kymograph._runs.store import LabelledArray, Store
from kymograph._wording import counted

ARMS_PER_PANEL = 6
"""The number of colours that every reader can tell apart on white and on black."""


@dataclass(frozen=True)
class ArmGroup:
    """Arms that share a panel, and the panel's title."""

    title: str
    arms: tuple[str, ...]


def group_arms(arms: Sequence[str], declared: Mapping[str, str] | None = None) -> list[ArmGroup]:
    """Returns the arms of each panel: those with a declared panel together, the others in order, evenly divided.

    >>> group_arms(["a/1", "b/1", "a/2"], {"a/1": "a", "a/2": "a", "b/1": "b"})
    [ArmGroup(title='a', arms=('a/1', 'a/2')), ArmGroup(title='b', arms=('b/1',))]
    """
    named: dict[str, list[str]] = {}
    for arm in arms:
        named.setdefault((declared or {}).get(arm, ""), []).append(arm)
    others = named.pop("", [])
    groups = [
        ArmGroup(title, tuple(members[first : first + ARMS_PER_PANEL]))
        for title, members in named.items()
        for first in range(0, len(members), ARMS_PER_PANEL)
    ]
    count = -(-len(others) // ARMS_PER_PANEL)
    size = -(-len(others) // count) if count else 1
    for first in range(0, len(others), size):
        last = min(first + size, len(others))
        title = f"arms {first + 1} to {last} of {len(others)}" if count > 1 else "other arms" if groups else ""
        groups.append(ArmGroup(title, tuple(others[first:last])))
    return groups


@dataclass(frozen=True)
class Key:
    """One entry of a legend; ``colour`` is an index into the page's palette."""

    name: str
    colour: int
    note: str = ""
    """What follows the name, e.g. "n = 10"."""
    kind: str = "line"
    """``line`` or ``area``."""
    dash: int = 0
    """A line's dashes, as an index into `kymograph._pictures.styles.DASHES`."""


@dataclass(frozen=True)
class Panel:
    """One picture of a chart."""

    title: str
    picture: Markup
    keys: tuple[Key, ...] = ()
    about: str = ""
    """The title at length, as its tooltip."""


@dataclass(frozen=True)
class Chart:
    """A chart as the template shows it."""

    id: str
    title: str
    panels: tuple[Panel, ...]
    caption: str
    data: Mapping[str, Any]
    """The data that the page's script uses for hovering and the CSV file; `table_data` suits every kind of panel."""
    foot: Markup | None = None
    """What all panels share, e.g. a colour bar."""
    series: tuple[str, ...] = ()
    """The series that the chart shows; a kind of panel lists those in addition to the requested one."""
    together: str = ""
    """Successive charts with the same text here stay together; empty: the chart is on its own."""
    view: str = ""
    """Which of two views is shown first, ``as measured`` or ``relative``; empty: there is only one."""
    legend: Markup | None = None
    """What the looks of all panels mean, above the caption."""
    multiples: bool = False
    """Whether there are many small panels, as many next to each other as fit."""

    @property
    def file(self) -> str:
        """The name of the CSV file."""
        return f"{self.id}.csv"


@dataclass(frozen=True)
class ChartRequest:
    """One chart to draw: the argument of every kind of panel."""

    id: str
    """The chart's id on the page."""
    store: Store
    """Finished runs of one study at one setting, their arms in the order of the declaration."""
    display: SeriesDisplay
    """The series, and how the study wants it shown."""
    declaration: Declaration = field(default_factory=lambda: Declaration(""))
    """The study's declaration, e.g. how its arms are drawn and which share a panel."""

    @property
    def time(self) -> str:
        """The label of the series' time axis."""
        return self.declaration.time

    @functools.cached_property
    def styles(self) -> dict[str, ArmStyle]:
        """The label, colour and dash of every arm, as in figures."""
        return arm_styles(self.declaration, self.store.arms)

    def bounds(self, values: np.ndarray) -> tuple[float, float] | None:
        """Returns the range that the series cannot leave; None if it is unbounded."""
        return bounds_of(self.display.series, values, self.declaration.bounds)

    def array(self) -> LabelledArray:
        """Returns the series, axes (arm, seed, step[, site])."""
        return self.store.series(self.display.series)

    def curves(self) -> LabelledArray | None:
        """Returns the series, axes (arm, seed, step), at the declared site if it has sites; None if no run has it."""
        array, site = self.array(), self.display.site
        if "site" not in array.labels:
            return array if site is None else None
        if site is None:
            raise KymographError(f"the series {array.name!r} has several sites; its display must name one as `site`")
        return array.sel(site=site) if site in array.labels["site"] else None

    def groups(self, arms: Sequence[str]) -> list[ArmGroup]:
        """Returns which of ``arms`` share a panel, as in these runs' other charts; baselines are in every panel."""
        declared = self.declaration.arms
        baselines = tuple(arm.name for arm in declared if arm.baseline and arm.name in arms)
        groups = []
        for group in group_arms(self.store.arms, {arm.name: arm.panel for arm in declared}):
            members = tuple(arm for arm in group.arms if arm in arms)
            if set(members) - set(baselines) or (members and len(members) == len(arms)):
                groups.append(ArmGroup(group.title, (*(arm for arm in baselines if arm not in members), *members)))
        return groups or [ArmGroup("", baselines)]


def rounded(values: Any) -> Any:
    """Returns nested lists of numbers with 5 significant digits; non-finite numbers become None."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, list | tuple):
        return [rounded(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.5g}") if math.isfinite(values) else None
    return values


def positions(values: np.ndarray) -> list[float]:
    """Returns positions (x,) with at least 5 significant digits, and so many that neighbours stay apart."""
    reach = float(np.abs(values).max(initial=0.0))
    steps = np.diff(np.unique(values))
    apart = math.log10(reach / float(steps.min())) if len(steps) and reach else 0.0
    digits = min(max(5, math.ceil(apart) + 2), 17)
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def scale_data(scale: Scale) -> list[float | int]:
    """Returns a scale in the format of the page's script: low, high, first pixel, last pixel, log or not."""
    return [scale.low, scale.high, round(scale.start, 2), round(scale.end, 2), int(scale.log)]


def table_data(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Returns a table in the format from which the page's script writes a CSV file."""
    return {"kind": "table", "columns": list(columns), "rows": [rounded(list(row)) for row in rows]}


def seeds_text(counts: Sequence[int]) -> str:
    """Returns "10 seeds" or "3 to 10 seeds"."""
    low, high = min(counts, default=0), max(counts, default=0)
    return counted(high, "seed") if low == high else f"{low} to {high} seeds"
