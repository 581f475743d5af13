"""A piece of work timed the script's way and ours, in turns, with its limits; and the table of such rows.

The ways are timed in turns so that other load on the machine affects both. For a limit the best repeat counts: load
adds to single repeats and takes nothing away.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """One piece of work done the script's way and ours; each function returns seconds."""

    about: str
    unit: str
    script: Callable[[], float]
    ours: Callable[[], float]
    faster: float | None = None
    """The limit: how many times faster ours must be."""
    most: float | None = None
    """The limit: how many seconds ours may take."""
    products: Callable[[], float] | None = None
    """Returns the seconds of the matrix products alone, those of the method as it is defined."""
    most_products: float | None = None
    """The limit: how many times the time of the matrix products ours may take."""

    @property
    def limit(self) -> str:
        """The limits in words."""
        limits = (
            (self.faster, "at least {:g}x faster"),
            (self.most, "ours under {:g} s"),
            (self.most_products, "at most {:g}x the products"),
        )
        return "; ".join(text.format(value) for value, text in limits if value is not None)


@dataclass(frozen=True)
class Timing:
    """Seconds of both ways, and of the matrix products alone, in each repeat."""

    name: str
    comparison: Comparison
    script: tuple[float, ...]
    ours: tuple[float, ...]
    products: tuple[float, ...] = ()

    @property
    def ratios(self) -> list[float]:
        """How many times faster ours was, repeat by repeat."""
        return [script / ours for script, ours in zip(self.script, self.ours, strict=True)]

    def over_products(self, seconds: Sequence[float]) -> list[float]:
        """Returns how many times longer than the matrix products something took, repeat by repeat."""
        return [a / b for a, b in zip(seconds, self.products, strict=True)] if self.products else []

    def over_limit(self) -> str:
        """Returns a sentence about the first limit that no repeat keeps; empty if there is none."""
        limits = self.comparison
        if limits.faster is not None and max(self.ratios) < limits.faster:
            return f"{self.name} is {max(self.ratios):.3g} times faster, below the limit of {limits.faster:g}"
        if limits.most is not None and min(self.ours) > limits.most:
            return f"{self.name} takes {min(self.ours):.3g} s, above the limit of {limits.most:g} s"
        least = min(self.over_products(self.ours), default=0.0)
        if limits.most_products is not None and least > limits.most_products:
            return f"{self.name} takes {least:.3g} times its products, above the limit of {limits.most_products:g}"
        return ""


def time_row(name: str, comparison: Comparison, repeats: int) -> Timing:
    """Times both ways, and the matrix products if the row has them, in turns."""
    seconds = []
    for number in range(repeats):
        print(f"{name}: {number + 1} of {repeats}", file=sys.stderr, flush=True)
        ways = (comparison.script, comparison.ours, *([comparison.products] if comparison.products else []))
        seconds.append([way() for way in ways])
    return Timing(name, comparison, *(tuple(column) for column in zip(*seconds, strict=True)))


def render(timings: Sequence[Timing]) -> str:
    """Returns the timings as a Markdown table, and a line about how they were taken."""
    lines = [
        "| work | the script's way | ours | ratio: median (range) | the script's way / matrix products alone "
        "| ours / matrix products alone | limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        script, ours, unit = statistics.median(timing.script), statistics.median(timing.ours), timing.comparison.unit
        shares = (_spread(timing.over_products(seconds)) for seconds in (timing.script, timing.ours))
        cells = (timing.comparison.about, f"{script:.3g} {unit}", f"{ours:.3g} {unit}", _spread(timing.ratios), *shares)
        lines.append(f"| {' | '.join(cells)} | {timing.comparison.limit} |")
    repeats = len(timings[0].script) if timings else 0
    return "\n".join([*lines, "", f"{repeats} repeats, all ways in turns; the best repeat counts for a limit."])


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g}x ({min(values):.3g}-{max(values):.3g})" if values else ""
