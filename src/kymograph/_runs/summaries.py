"""Stored runs summarised by arm: grouped by settings, with headline numbers and notes."""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from kymograph._rounding import digits_off_round_numbers, estimate_text, number_text
from kymograph._runs.declaration import bounds_of
from kymograph._runs.divergence import diverged_text
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from kymograph._statistics.intervals import mean_interval


class _Run(Protocol):
    @property
    def arm(self) -> str: ...

    @property
    def spec(self) -> RunSpec | None: ...


R = TypeVar("R", bound=_Run)


def by_arm_and_settings(runs: Iterable[R]) -> dict[str, list[R]]:
    """Returns the runs by arm and by the settings in which an arm's runs differ, e.g. ``adam (lr=0.1)``, in order.

    A run without a spec, i.e. a record that cannot be read, has no settings.
    """
    members: dict[tuple[str, str, str | None], list[R]] = {}
    for run in runs:  # seeds of one arm share their settings
        text, source = ("", None) if run.spec is None else (run.spec.settings_text, run.spec.source)
        members.setdefault((run.arm, text, source), []).append(run)
    values: dict[tuple[str, str], set[str]] = {}
    for (arm, *_), group in members.items():
        for name, value in _settings(group[0]).items():
            values.setdefault((arm, name), set()).add(str(value))
    groups: dict[str, list[R]] = {}
    for (arm, *_), group in members.items():
        differing = [f"{name}={value}" for name, value in _settings(group[0]).items() if len(values[arm, name]) > 1]
        groups.setdefault(f"{arm} ({', '.join(differing)})" if differing else arm, []).extend(group)
    return groups


def _settings(run: _Run) -> Mapping[str, Any]:
    """Returns every setting, and the source of a user-defined study."""
    if run.spec is None:
        return {}
    return run.spec.settings if run.spec.source is None else {**run.spec.settings, "source": run.spec.source}


@dataclass(frozen=True)
class HeadlineNumber:
    """One summary number over the runs of an arm: each run's value, their mean, and its 95 % Student's t interval."""

    values: tuple[float | None, ...]
    """One per run, in the order given; None where missing or not finite."""
    mean: float
    """NaN if no run has a value."""
    low: float
    high: float
    """The interval's ends; NaN for fewer than two values."""
    true: int | None = None
    """How many values are true, if all of them are Booleans; else None."""

    @property
    def n(self) -> int:
        """How many runs have a value."""
        return sum(value is not None for value in self.values)

    @property
    def missing(self) -> int:
        """How many runs have no value."""
        return len(self.values) - self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The interval's ends."""
        return self.low, self.high

    @property
    def median(self) -> float:
        """The median of the values; NaN if there are none."""
        return statistics.median(self._present)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value; NaN if there are none."""
        return min(self._present), max(self._present)

    @property
    def _present(self) -> list[float]:
        return [value for value in self.values if value is not None] or [math.nan]

    def text(self, *, p_value: bool = False, typeset: bool = False) -> str:
        """Returns ``mean [low, high]``, with enough digits that nothing is written as a rounder number than it is.

        Of p-values, whose mean has no meaning, it is ``median 0.2, range 0.01 to 0.4``. The interval is left out where
        all runs agree or there is only one.
        """
        if not p_value:
            numbers = (self.mean, *(self.interval if self.low < self.high else ()))
            digits = digits_off_round_numbers(numbers)
            return estimate_text(self.mean, self.interval, digits=digits, typeset=typeset)
        numbers = (self.median, *self.range)
        digits = digits_off_round_numbers(numbers)
        middle, least, most = (number_text(number, digits, typeset=typeset) for number in numbers)
        return f"median {middle}, range {least} to {most}" if numbers[1] < numbers[2] else middle


def arm_headlines(
    summaries: Sequence[Mapping[str, Any]],
    keys: Iterable[str],
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, HeadlineNumber]:
    """Computes the headline numbers ``keys`` over the ``summaries`` of an arm's finished runs.

    ``bounds`` are those declared by the study; `bounds_of` adds the usual ones.

    >>> arm = arm_headlines([{"loss": 1.0}, {"loss": 3.0}, {}], ["loss"])
    >>> arm["loss"].mean, arm["loss"].missing
    (2.0, 1)
    """
    values = {key: [summary.get(key) for summary in summaries] for key in keys}
    return {key: headline_number(column, bounds=bounds_of(key, column, bounds)) for key, column in values.items()}


def headline_number(
    values: Iterable[Any], interval: bool = True, bounds: tuple[float, float] | None = None
) -> HeadlineNumber:
    """Computes the mean and interval of one summary number over runs; values that are not finite count as missing.

    Without ``interval`` its ends are NaN and scipy is not loaded. With ``bounds`` the ends stay within them.

    >>> headline_number([0.5, 0.5, None])
    HeadlineNumber(values=(0.5, 0.5, None), mean=0.5, low=0.5, high=0.5, true=None)
    """
    stored = list(values)
    numbers = tuple(float(value) if is_number(value) else None for value in stored)
    present = [value for value in numbers if value is not None]
    truths = [value for value in stored if isinstance(value, bool)]
    column = np.array(present, dtype=np.float64)[:, None]
    if interval:
        mean, low, high = (float(part[0]) for part in mean_interval(column, bounds=bounds))
    else:
        with np.errstate(over="ignore"):
            mean, low, high = float(column.sum(axis=0)[0] / len(present)) if present else math.nan, math.nan, math.nan
    true = sum(truths) if present and len(truths) == len(present) else None
    return HeadlineNumber(numbers, mean, low, high, true)


def count_diverged(runs: Iterable[StoredRun]) -> str:
    """Returns how many of the runs diverged, and when, in words; empty if none did."""
    return diverged_text([run.divergence for run in runs if run.divergence is not None])


def is_number(value: Any) -> bool:
    """Returns whether a stored value is a finite number within a float's range; Booleans are."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def collected_notes(runs: Sequence[StoredRun]) -> list[str]:
    """Returns every distinct note of the runs, with how many runs carry it."""
    total = len(runs)
    carried = Counter(note for run in runs for note in dict.fromkeys(run.notes))
    everyone = "1 run" if total == 1 else f"all {total} runs"
    return [f"{note} ({everyone if count == total else f'{count} of {total} runs'})" for note, count in carried.items()]
