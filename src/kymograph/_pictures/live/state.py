"""The state of a directory of runs as plain data: what is planned, done, failed and running, and its numbers."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kymograph._errors import KymographError
from kymograph._io.writing import plain
from kymograph._pictures.live.network import TracedNetwork
from kymograph._runs.declaration import Declaration, bounds_of
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import headline_number
from kymograph._sweep.heartbeat import Beat

POINTS = 60
"""The most points of a series that a sparkline shows; more are averaged in groups."""
SHOWN = 5
"""The most summary numbers shown of a study that declares no headlines."""


@dataclass(frozen=True)
class Headline:
    """One headline number of an arm: its label, its mean over seeds, and each seed's value.

    Of p-values the median stands in place of the mean, and its label says so.
    """

    key: str
    label: str
    mean: float | None
    values: tuple[float | None, ...]
    """None where missing."""
    bounds: tuple[float, float] | None = None
    """The range that the number cannot leave."""
    is_median: bool = False
    """Whether ``mean`` is the median, as of p-values, whose mean has no meaning."""

    @functools.cached_property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean, which only the page shows: it needs scipy, and takes time with many arms."""
        if self.is_median:
            return None
        number = headline_number(self.values, bounds=self.bounds)
        return number.interval if math.isfinite(number.low) and math.isfinite(number.high) else None


@dataclass(frozen=True)
class TracedSeries:
    """One series of one run, thinned to at most `POINTS` points; None where it was not finite."""

    name: str
    seed: int
    last_step: int | float
    values: tuple[float | None, ...]


Condition = Literal["finished", "diverged", "failed", "damaged", "running", "missing", "waiting"]


@dataclass(frozen=True)
class RunCounts:
    """How many runs are in each condition.

    ``missing`` runs were being computed when their process ended; the records of ``damaged`` ones cannot be read, so
    they do not count as done.
    """

    finished: int = 0
    diverged: int = 0
    failed: int = 0
    damaged: int = 0
    running: int = 0
    missing: int = 0
    waiting: int = 0

    @property
    def planned(self) -> int:
        """The total."""
        return sum(dataclasses.astuple(self))

    @property
    def done(self) -> int:
        """How many runs have results."""
        return self.finished + self.diverged


@dataclass(frozen=True)
class ProcessState:
    """What one process is computing: runs that train together, or a single one."""

    process: int
    runs: int
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    done: int
    """Steps done, of all the runs together."""
    steps: int
    """All steps of the runs; 0 if unknown."""
    message: str
    """What the training code last reported."""
    started: float
    alive: bool
    host: str = ""
    """The host that it runs on; empty: this one."""


@dataclass(frozen=True)
class LostRunState:
    """A run that diverged or failed or whose record is damaged, and when or why."""

    arm: str
    seed: int
    condition: Condition
    reason: str


@dataclass(frozen=True)
class ArmState:
    """One arm at one set of settings: its runs, its headline numbers over seeds, a series of its latest run."""

    name: str
    counts: RunCounts
    headlines: tuple[Headline, ...]
    """Empty for an arm that is not shown in detail."""
    trace: TracedSeries | None
    label: str = ""
    """What the study calls the arm; with the settings, where it was run with several."""
    colour: int = 0
    """Its colour in figures and reports, as a position among `kymograph._pictures.styles.COLOURS`."""


MOST_ARMS = 60
"""How many arms of a study are shown in detail."""


def arms_in_detail(counts: Sequence[RunCounts]) -> list[int]:
    """Returns the indices of the arms that are shown in detail: all, or if there are many, unfinished first."""
    indices = sorted(range(len(counts)), key=lambda index: counts[index].done == counts[index].planned)
    return sorted(indices[:MOST_ARMS])


@dataclass(frozen=True)
class StudyState:
    """One study of the directory."""

    name: str
    order: int
    """The study's declared position among others."""
    counts: RunCounts
    eta: int | None
    """Whole seconds until all is done; None if nothing is left, nothing is running, or nothing is known yet."""
    processes: tuple[ProcessState, ...]
    lost: tuple[LostRunState, ...]
    arms: tuple[ArmState, ...]
    superseded: int
    """Runs of an earlier version or source of the study, planned or stored; they count nowhere else."""
    notes: tuple[str, ...]
    """Files of the study that cannot be read, and why."""
    progress: float = 0.0
    """How many runs are done, where a running one counts by the share of its steps."""
    network: TracedNetwork | None = None
    """A series along depth of the run that ended last."""

    @property
    def ended(self) -> bool:
        """Whether every run has ended, well or badly."""
        return self.counts.running == self.counts.missing == self.counts.waiting == 0


@dataclass(frozen=True)
class LiveState:
    """Everything that a view shows."""

    directory: str
    studies: tuple[StudyState, ...]

    @property
    def ended(self) -> bool:
        """Whether something was planned and all of it has ended, well or badly."""
        return bool(self.studies) and all(study.ended for study in self.studies)

    @property
    def damaged(self) -> bool:
        """Whether some file cannot be read, so that part of the state is unknown."""
        return any(study.notes or study.counts.damaged for study in self.studies)

    def to_json(self) -> dict[str, Any]:
        """Returns the state as strict JSON values."""
        content = plain(dataclasses.asdict(self))
        for study, entry in zip(self.studies, content["studies"], strict=True):
            entry["counts"] |= {"planned": study.counts.planned, "done": study.counts.done}
            for arm, inner in zip(study.arms, entry["arms"], strict=True):
                inner["counts"] |= {"planned": arm.counts.planned, "done": arm.counts.done}
                for headline, numbers in zip(arm.headlines, inner["headlines"], strict=True):
                    numbers["interval"] = plain(headline.interval)
        return {**content, "ended": self.ended, "damaged": self.damaged}


def headlines(declaration: Declaration, summaries: Sequence[Mapping[str, Any]]) -> tuple[Headline, ...]:
    """Returns the headline numbers over the ``summaries`` of an arm's finished runs, in the order of their seeds."""
    labels = {
        key: label
        for key, label in declaration.headlines.items()
        if any(key in summary and _may_be_number(summary[key]) for summary in summaries)
    }
    if not labels:
        numeric = dict.fromkeys(key for summary in summaries for key, value in summary.items() if _may_be_number(value))
        labels = {key: key for key in list(numeric)[:SHOWN]}
    shown = []
    for key, label in labels.items():
        values = [summary.get(key) for summary in summaries]
        number = headline_number(values, interval=False)
        if key in declaration.p_values:
            median = number.median if number.n else None
            shown.append(Headline(key, f"{label}, median", median, number.values, is_median=True))
        else:
            bounds = bounds_of(key, values, declaration.bounds)
            shown.append(Headline(key, label, number.mean if number.n else None, number.values, bounds))
    return tuple(shown)


def _may_be_number(value: Any) -> bool:
    """Returns whether a stored value is a number, or represents one that is missing."""
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    return value is None


def traced_names(declaration: Declaration) -> tuple[str, ...]:
    """Returns which series may be traced, first choice first: those to show, headline numbers, the loss."""
    return tuple(dict.fromkeys([*(display.series for display in declaration.series), *declaration.headlines, "loss"]))


@functools.lru_cache(maxsize=4096)
def trace_series(run: StoredRun, wanted: tuple[str, ...]) -> TracedSeries | None:
    """Returns the first ``wanted`` series that a finished run has, else its first; None if it has none.

    Only a series with one value per step can be traced.
    """
    try:
        series = {name: curve for name, curve in run.series.items() if curve.sites is None and len(curve.step) > 1}
    except KymographError:
        return None  # it was damaged after it had been read
    finally:
        run.__dict__.pop("series", None)  # a run's series are megabytes, and a view needs sixty numbers
    name = next((name for name in [*wanted, *series] if name in series), None)
    if name is None:
        return None
    return TracedSeries(name, run.seed, series[name].step[-1].item(), thin(series[name].value))


def thin(values: np.ndarray) -> tuple[float | None, ...]:
    """Returns at most `POINTS` means of neighbouring values, in order; a group that is not finite is None."""
    groups = np.array_split(np.asarray(values, dtype=np.float64), min(POINTS, len(values)))
    with np.errstate(invalid="ignore", over="ignore"):
        means = [float(group.mean()) for group in groups]
    return tuple(mean if math.isfinite(mean) else None for mean in means)


def remaining_seconds(
    took: Sequence[Sequence[float]], left: Sequence[int], beats: Sequence[Beat], now: float
) -> float | None:
    """Returns the seconds until all runs have ended; None as long as nothing shows how long a run takes.

    Args:
        took: per arm, the seconds that its finished runs took, each its share of the stack it trained in.
        left: per arm, how many runs have not been started.
        beats: the heartbeats of the running processes, at least one; they share what is left.
        now: the time.

    Assumes that a process needs as long for each remaining step as for each step so far, and that a run that has not
    been started takes as long as its arm's finished runs, or else as any run, finished or running.
    """
    rates = [(beat.updated - beat.started) / beat.done if beat.done > 0 and beat.steps else None for beat in beats]
    expected = [rate * beat.steps / max(len(beat.runs), 1) for rate, beat in zip(rates, beats, strict=True) if rate]
    every = [seconds for arm in took for seconds in arm] or expected
    if not every:
        return None
    usual = sum(every) / len(every)
    running = [
        max((usual * len(beat.runs) if rate is None else rate * beat.steps) - (now - beat.started), 0.0)
        for rate, beat in zip(rates, beats, strict=True)
    ]
    waiting = sum(count * (sum(arm) / len(arm) if arm else usual) for arm, count in zip(took, left, strict=True))
    return max((sum(running) + waiting) / len(beats), *running)
