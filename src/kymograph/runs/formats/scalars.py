"""A run as experiment trackers represent it: named scalars over steps, final numbers, texts and a time stamp."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kymograph.runs.stored import StoredRun


@dataclass(frozen=True)
class Scalar:
    """One measured quantity at one site, without its missing values."""

    tag: str
    """The series' name, or ``series/site`` where it was measured at several sites."""
    step: np.ndarray  # (steps,)
    value: np.ndarray  # (steps,), no NaN


def tags(name: str, sites: tuple[str, ...] | None) -> list[str]:
    """Returns the names of the scalars of a series: its name, or ``NAME/SITE`` for each of its sites."""
    return [name] if sites is None else [f"{name}/{site}" for site in sites]


def scalars(run: StoredRun) -> Iterator[Scalar]:
    """Yields every series of ``run``, one scalar per site; NaN is missing and is left out, infinities stay."""
    for name, entry in run.series.items():
        columns = np.atleast_2d(entry.value.astype(np.float64).T)  # (sites, steps), even if there are no steps
        for tag, values in zip(tags(name, entry.sites), columns, strict=True):
            here = ~np.isnan(values)
            yield Scalar(tag, entry.step[here], values[here])


def summary_numbers(run: StoredRun) -> dict[str, float]:
    """Returns the summary's numbers by key; missing ones are left out, Booleans are 0 and 1."""
    numbers = {}
    for key, value in run.summary.items():
        if isinstance(value, bool | int | float) or value in ("Infinity", "-Infinity"):
            numbers[key] = float(value)
    return numbers


def summary_words(run: StoredRun) -> dict[str, str]:
    """Returns the summary's texts by key."""
    numbers = summary_numbers(run)
    return {key: value for key, value in run.summary.items() if key not in numbers and isinstance(value, str)}


def written_at(run: StoredRun) -> float:
    """Returns when the run was stored, in seconds since 1970, so that exporting twice gives the same bytes."""
    try:
        return float(calendar.timegm(time.strptime(run.written, "%Y-%m-%dT%H:%M:%SZ")))
    except (ValueError, OverflowError):
        return 0.0
