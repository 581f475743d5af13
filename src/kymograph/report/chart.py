"""What every chart of the page consists of: pictures, a legend with n, a caption, and the data behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kymograph.report.svg import Scale


@dataclass(frozen=True)
class Key:
    """One entry of a legend; the mark's colour is that of its place in the page's palette."""

    name: str
    colour: int
    note: str = ""
    """What stands behind the name, e.g. "n = 10"."""
    kind: str = "line"
    """``line`` or ``area``."""


@dataclass(frozen=True)
class Panel:
    """One picture of a chart."""

    title: str
    picture: Markup
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A chart as the template shows it."""

    id: str
    title: str
    panels: tuple[Panel, ...]
    caption: str
    data: Mapping[str, Any]
    """What the page's script reads for hovering and for the CSV file."""
    foot: Markup | None = None
    """What all panels share, e.g. a colour bar."""

    @property
    def file(self) -> str:
        """The name of the CSV file."""
        return f"{self.id}.csv"


def rounded(values: Any) -> Any:
    """Returns nested lists of numbers with 5 significant digits; what is not finite becomes None."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, list | tuple):
        return [rounded(value) for value in values]
    if isinstance(values, float):
        return float(f"{values:.5g}") if math.isfinite(values) else None
    return values


def scale_data(scale: Scale) -> list[float | int]:
    """Returns a scale as the page's script reads it: low, high, first pixel, last pixel, log or not."""
    return [scale.low, scale.high, round(scale.start, 2), round(scale.end, 2), int(scale.log)]


def table_data(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Returns rows as the page's script writes them to a CSV file."""
    return {"kind": "table", "columns": list(columns), "rows": [rounded(list(row)) for row in rows]}


def seeds_text(counts: Sequence[int]) -> str:
    """Returns "10 seeds" or "3 to 10 seeds"."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{high} seed{'s' if high != 1 else ''}" if low == high else f"{low} to {high} seeds"


def spans_decades(values: np.ndarray) -> bool:
    """Says whether values ask for a log scale: all positive, over more than a factor of 50."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > 50 * finite.min())
