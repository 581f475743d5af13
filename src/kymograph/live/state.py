"""The state of a directory of runs as plain data: what is planned, done, failed and running, and when it will end."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from kymograph.live.numbers import Headline, TracedSeries
from kymograph.runs.files import plain

Condition = Literal["finished", "failed", "damaged", "running", "missing", "waiting"]


@dataclass(frozen=True)
class RunCounts:
    """How many runs are in each condition.

    ``missing`` runs were being computed when their process ended; the records of ``damaged`` ones cannot be read, so
    they do not count as done.
    """

    finished: int = 0
    failed: int = 0
    damaged: int = 0
    running: int = 0
    missing: int = 0
    waiting: int = 0

    @property
    def planned(self) -> int:
        """The total."""
        return sum(dataclasses.astuple(self))


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
    """A run that failed or whose record is damaged, and why."""

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
    trace: TracedSeries | None
    label: str = ""
    """What the study calls the arm; with the settings, where it was run with several."""
    colour: int = 0
    """Its colour in figures and reports, as a position among `kymograph.figures.arm_looks.COLOURS`."""


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
            entry["counts"]["planned"] = study.counts.planned
            for arm, inner in zip(study.arms, entry["arms"], strict=True):
                inner["counts"]["planned"] = arm.counts.planned
        return {**content, "ended": self.ended, "damaged": self.damaged}
