"""The state of a directory of runs, as plain data: what is planned, done, failed, at work, and when it will end.

`look` is a pure function of the directory and the clock. It reads and never writes; a damaged file becomes a sentence
in the state, so that a view goes on showing what is whole.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kymograph.errors import KymographError
from kymograph.live.numbers import Headline, Trace, headlines, remaining_seconds, trace
from kymograph.runs.files import plain
from kymograph.runs.ledger import PLAN, PlannedRun, read_plan_file
from kymograph.runs.record import STATUS
from kymograph.runs.store import StoredRun
from kymograph.sweep.heartbeat import RUNNING, Beat, read_beats

Condition = Literal["finished", "failed", "running", "stopped", "waiting"]


@dataclass(frozen=True)
class LiveCounts:
    """How many runs are in each condition; ``stopped`` ones were at work when their process ended."""

    finished: int = 0
    failed: int = 0
    running: int = 0
    stopped: int = 0
    waiting: int = 0

    @property
    def planned(self) -> int:
        """All of them."""
        return self.finished + self.failed + self.running + self.stopped + self.waiting


@dataclass(frozen=True)
class LiveWork:
    """What one process is computing: runs that train together, or a single one."""

    process: int
    runs: int
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    done: int
    steps: int
    words: str
    started: float
    alive: bool


@dataclass(frozen=True)
class LiveFailure:
    """A run that failed, and why."""

    arm: str
    seed: int
    reason: str


@dataclass(frozen=True)
class LiveArm:
    """One arm at one set of settings: its runs, its headline numbers over seeds, its latest headline series."""

    name: str
    counts: LiveCounts
    headlines: tuple[Headline, ...]
    trace: Trace | None


@dataclass(frozen=True)
class LiveStudy:
    """One study of the directory."""

    name: str
    counts: LiveCounts
    eta: int | None
    """Whole seconds until all is done; None if nothing is left, nothing is at work, or nothing is known yet."""
    work: tuple[LiveWork, ...]
    failures: tuple[LiveFailure, ...]
    arms: tuple[LiveArm, ...]
    notes: tuple[str, ...]

    @property
    def ended(self) -> bool:
        """Whether every run has ended, well or badly."""
        return self.counts.running == self.counts.stopped == self.counts.waiting == 0


@dataclass(frozen=True)
class LiveState:
    """Everything a view shows."""

    directory: str
    studies: tuple[LiveStudy, ...]

    @property
    def ended(self) -> bool:
        """Whether something was planned and all of it has ended, well or badly."""
        return bool(self.studies) and all(study.ended for study in self.studies)

    @property
    def damaged(self) -> bool:
        """Whether a plan could not be read, so that nobody knows what is missing."""
        return any(study.notes for study in self.studies)

    def to_json(self) -> dict[str, Any]:
        """Returns the state as strict JSON can hold it."""
        content = plain(dataclasses.asdict(self))
        for study, entry in zip(self.studies, content["studies"], strict=True):
            entry["counts"]["planned"] = study.counts.planned
            for arm, inner in zip(study.arms, entry["arms"], strict=True):
                inner["counts"]["planned"] = arm.counts.planned
        return {**content, "ended": self.ended}


@dataclass(frozen=True)
class _Run:
    """A run that is planned, stored, or both."""

    planned: PlannedRun
    condition: Condition
    stored: StoredRun | None = None
    ended_at: float = 0.0
    reason: str = ""


def look(directory: str | Path, now: float) -> LiveState:
    """Returns the state of ``directory``, an output directory or a study's own, at the time ``now``."""
    root = Path(directory)
    if not root.is_dir():
        raise KymographError(f"there is no directory {root}; make one with `kymograph run STUDY --out {root}`")
    places = [root] if _is_study(root) else [path for path in _directories(root) if _is_study(path)]
    studies = [_study(place, now) for place in places]
    return LiveState(str(directory), tuple(sorted(studies, key=lambda study: study.ended)))  # what is at work first


def look_again(directory: str | Path, now: float) -> LiveState:
    """Returns the state of a directory that was there before; if it has gone it stands empty, and may come back."""
    try:
        return look(directory, now)
    except KymographError:
        return LiveState(str(directory), ())


def _study(directory: Path, now: float) -> LiveStudy:
    notes: list[str] = []
    planned: dict[str, PlannedRun] = {}
    try:
        planned = {run.name: run for run in _plan(directory / PLAN, _stamp(directory / PLAN))}
    except FileNotFoundError:
        pass  # runs of before there were plans, or a plan that somebody has just deleted
    except KymographError as error:
        notes.append(str(error))
    beats = read_beats(directory, now)
    runs = [
        run
        for name in dict.fromkeys([*planned, *(path.name for path in _directories(directory))])
        if (run := _run(directory / name, planned.get(name), beats)) is not None
    ]
    groups = _groups(runs)
    failures = [LiveFailure(run.planned.arm, run.planned.seed, run.reason) for run in runs if run.condition == "failed"]
    name = runs[0].planned.study if runs else directory.name
    counts = _count(runs)
    return LiveStudy(
        name=name,
        counts=counts,
        eta=_eta(groups, counts, [beat for beat in beats if beat.alive], now),
        work=tuple(_work(beat, {run.planned.id: run for run in runs}) for beat in _unfinished(beats, runs)),
        failures=tuple(failures),
        arms=tuple(_arm(name, label, members) for label, members in groups.items()),
        notes=tuple(notes),
    )


def _run(directory: Path, planned: PlannedRun | None, beats: Sequence[Beat]) -> _Run | None:
    """Returns how one run is; None for a directory that is no run."""
    status = directory / STATUS
    stored, written, reason = None, 0.0, ""
    try:
        stamp = _stamp(status)
    except OSError:
        if planned is None:
            return None
    else:
        written = stamp[0] / 1e9
        try:
            stored = _stored(directory, stamp)
            planned = planned or PlannedRun.of(stored.spec)
            reason = stored.reason or ""
        except KymographError as error:
            if planned is None:
                planned = PlannedRun("", directory.parent.name, directory.name, 0, {}, 0)
            return _Run(planned, "failed", None, written, str(error))
    if stored is not None and stored.status == "finished":
        return _Run(planned, "finished", stored, written)
    mine = [beat for beat in beats if planned.id in beat.runs]
    # A failure from before the process began is history: the run is being tried again.
    if any(beat.alive and beat.started > written for beat in mine):
        return _Run(planned, "running")
    if stored is not None:
        return _Run(planned, "failed", stored, written, reason)
    return _Run(planned, "stopped" if mine else "waiting")


def _count(runs: Sequence[_Run]) -> LiveCounts:
    conditions = [run.condition for run in runs]
    return LiveCounts(**{field.name: conditions.count(field.name) for field in dataclasses.fields(LiveCounts)})  # type: ignore[arg-type]


def _groups(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """Returns the runs by arm, and by whatever settings one arm was run with several of: those are never averaged."""
    values: dict[tuple[str, str], set] = {}
    for run in runs:
        for field, value in _settings(run).items():
            values.setdefault((run.planned.arm, field), set()).add(str(value))
    groups: dict[str, list[_Run]] = {}
    for run in runs:
        arm = run.planned.arm
        differing = [f"{f}={v}" for f, v in _settings(run).items() if len(values[arm, f]) > 1]
        groups.setdefault(f"{arm} ({', '.join(differing)})" if differing else arm, []).append(run)
    return groups


def _settings(run: _Run) -> Mapping[str, Any]:
    return {**run.planned.config, "version": run.planned.version} if run.planned.id else {}


def _arm(study: str, label: str, runs: Sequence[_Run]) -> LiveArm:
    finished = sorted((run for run in runs if run.stored and run.condition == "finished"), key=lambda r: r.planned.seed)
    latest = max(finished, key=lambda run: run.ended_at, default=None)
    return LiveArm(
        label,
        _count(runs),
        headlines(study, [run.stored for run in finished if run.stored]),
        None if latest is None or latest.stored is None else trace(study, latest.stored),
    )


def _unfinished(beats: Sequence[Beat], runs: Sequence[_Run]) -> list[Beat]:
    """Returns the beats that stand for work: the live ones, and those whose process left runs undone."""
    stopped = {run.planned.id for run in runs if run.condition == "stopped"}
    return [beat for beat in beats if beat.alive or stopped & set(beat.runs)]


def _work(beat: Beat, runs: Mapping[str, _Run]) -> LiveWork:
    members = [runs[run].planned for run in beat.runs if run in runs]
    return LiveWork(
        process=beat.pid,
        runs=len(beat.runs),
        arms=tuple(dict.fromkeys(run.arm for run in members)),
        seeds=tuple(dict.fromkeys(run.seed for run in members)),
        done=min(beat.done, beat.steps),
        steps=beat.steps,
        words=beat.words,
        started=beat.started,
        alive=beat.alive,
    )


def _eta(groups: Mapping[str, Sequence[_Run]], counts: LiveCounts, beats: Sequence[Beat], now: float) -> int | None:
    if not beats or not counts.running + counts.waiting + counts.stopped:
        return None
    took = [[run.stored.seconds for run in runs if run.stored and run.stored.seconds] for runs in groups.values()]
    left = [sum(run.condition in ("waiting", "stopped") for run in runs) for runs in groups.values()]
    seconds = remaining_seconds(took, left, beats, now)
    return None if seconds is None else round(seconds)


def _is_study(path: Path) -> bool:
    """Says whether a directory holds a plan, a heartbeat, or runs."""
    if (path / PLAN).exists() or (path / RUNNING).is_dir():
        return True
    return any((run / STATUS).exists() for run in _directories(path))


def _directories(path: Path) -> Iterator[Path]:
    """Yields the directories inside ``path`` that may be runs or studies: no hidden and no half-done ones."""
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError:
        return
    yield from (path / name for name in names if not name.startswith(".") and not name.endswith(".part"))


def _stamp(path: Path) -> tuple[int, int, int]:
    """Returns what changes whenever a file is replaced."""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


# Records are replaced by rename and never edited in place, so what was read once need not be read again.
@functools.lru_cache(maxsize=1 << 16)
def _stored(directory: Path, stamp: tuple[int, int, int]) -> StoredRun:
    return StoredRun(directory)


@functools.lru_cache(maxsize=64)
def _plan(path: Path, stamp: tuple[int, int, int]) -> tuple[PlannedRun, ...]:
    return tuple(read_plan_file(path))
