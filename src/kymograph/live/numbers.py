"""The numbers of the live view: headline means over seeds, the latest headline series, and the time that is left."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.store import StoredRun
from kymograph.studies.base import BUILT_IN, load_study
from kymograph.sweep.heartbeat import Beat

POINTS = 60
"""The most points of a series that a sparkline shows; more are averaged in groups."""
SHOWN = 5
"""The most summary numbers shown of a study that names no headlines."""


@dataclass(frozen=True)
class Headline:
    """One headline number of an arm: what it is called, its mean over seeds, and each seed's, None where missing."""

    key: str
    label: str
    mean: float | None
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Trace:
    """One series of one run, thinned to at most `POINTS` points; None where it was not finite."""

    name: str
    seed: int
    last_step: int
    values: tuple[float | None, ...]


def headlines(study: str, runs: Sequence[StoredRun]) -> tuple[Headline, ...]:
    """Returns the headline numbers of finished ``runs`` of one arm, given in the order of their seeds."""
    summaries = [_numbers(run) for run in runs]
    known = dict.fromkeys(key for summary in summaries for key in summary)
    labels = {key: label for key, label in _labels(study).items() if key in known}
    found = []
    for key, label in (labels or {key: key for key in list(known)[:SHOWN]}).items():
        values = [summary.get(key) for summary in summaries]
        finite = [value for value in values if value is not None]
        found.append(Headline(key, label, sum(finite) / len(finite) if finite else None, tuple(values)))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def trace(study: str, run: StoredRun) -> Trace | None:
    """Returns the headline series of a finished run; None if it has none, or they are damaged.

    The headline series is the first headline number that is also a series, else the loss, else the first series
    with one value a step.
    """
    try:
        series = {name: one for name, one in run.series.items() if one.sites is None and len(one.step) > 1}
    except KymographError:
        return None
    finally:
        run.__dict__.pop("series", None)  # a run's series are megabytes, and a view needs sixty numbers
    name = next((name for name in [*_labels(study), "loss", *series] if name in series), None)
    if name is None:
        return None
    return Trace(name, run.seed, int(series[name].step[-1]), thin(series[name].value))


def thin(values: np.ndarray) -> tuple[float | None, ...]:
    """Returns at most `POINTS` means of neighbouring values, in order; a group that is not finite is None."""
    groups = np.array_split(np.asarray(values, dtype=np.float64), min(POINTS, len(values)))
    with np.errstate(invalid="ignore", over="ignore"):
        means = [float(group.mean()) for group in groups]
    return tuple(mean if math.isfinite(mean) else None for mean in means)


def remaining_seconds(
    took: Sequence[Sequence[float]], left: Sequence[int], beats: Sequence[Beat], now: float
) -> float | None:
    """Returns the seconds until all runs have ended; None if nothing tells yet how long a run takes.

    Args:
        took: per arm, the seconds that its finished runs took, each its share of the stack it trained in.
        left: per arm, how many runs nobody has begun.
        beats: the processes at work, at least one; they share what is left.
        now: the time.

    A process at work needs as long for its remaining steps as for those done, in proportion. A run not begun
    takes as long as those of its arm did, or else as any run, finished or at work.
    """
    rates = [(beat.updated - beat.started) / beat.done if beat.done > 0 else None for beat in beats]
    known = [rate * beat.steps / max(len(beat.runs), 1) for rate, beat in zip(rates, beats, strict=True) if rate]
    every = [seconds for arm in took for seconds in arm] or known
    if not every:
        return None
    usual = sum(every) / len(every)
    at_work = [
        max((usual * len(beat.runs) if rate is None else rate * beat.steps) - (now - beat.started), 0.0)
        for rate, beat in zip(rates, beats, strict=True)
    ]
    waiting = sum(count * (sum(arm) / len(arm) if arm else usual) for arm, count in zip(took, left, strict=True))
    return max((sum(at_work) + waiting) / len(beats), *at_work)


def duration(seconds: float) -> str:
    """Returns a length of time in words as coarse as it is uncertain."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{seconds / 86400:.0f} days"


@functools.cache
def _labels(study: str) -> Mapping[str, str]:
    """Returns a study's headlines. Only our own are loaded: a name found in a file must not import code."""
    return load_study(study).headlines if study in BUILT_IN else {}


def _numbers(run: StoredRun) -> dict[str, float | None]:
    """Returns the summary's numbers, None for what is missing or not finite; nothing if the summary is damaged."""
    try:
        summary = run.summary
    except KymographError:
        return {}
    numbers: dict[str, float | None] = {}
    for key, value in summary.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[key] = float(value) if math.isfinite(value) else None
        elif value is None or value in ("Infinity", "-Infinity"):
            numbers[key] = None
    return numbers
