"""Reading the state of a directory of runs again and again: only what has changed, and seldom enough to be cheap.

`read_state` is a pure function of the directory and the clock. It never writes; a damaged file becomes a sentence in
the state, so that a view still shows everything else. A file's content is cached until the file is replaced.

A `Watcher` knows the sweep only through its files. Records come and go by rename, which changes the date of their
directory: while no date changes and no process is running, ten thousand runs need not be read. A file that is edited in
place shows at the next full reading.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import Stamp, entries, is_directory_entry, real_path, stamp_of
from kymograph._io.processes import Process
from kymograph._pictures.live.network import TracedNetwork, declared_maps, trace_network
from kymograph._pictures.live.state import (
    ArmState,
    Condition,
    LiveState,
    LostRunState,
    ProcessState,
    RunCounts,
    StudyState,
    arms_in_detail,
    headlines,
    remaining_seconds,
    trace_series,
    traced_names,
)
from kymograph._pictures.styles import ArmStyle, arm_styles
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import Declaration, read_declaration
from kymograph._runs.directory import Directory, damaged_run
from kymograph._runs.history import current_code
from kymograph._runs.locating import check_directory
from kymograph._runs.log import DIRECTORY as LOG
from kymograph._runs.record import ARRAYS, CHECKPOINT, CONFIG, STATUS, SUMMARY
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import by_arm_and_settings
from kymograph._runs.thin_run import ARRAYS as THIN_ARRAYS
from kymograph._runs.thin_run import DOCUMENT as THIN_DOCUMENT
from kymograph._runs.thin_run import stored_run
from kymograph._studies.loading import declaration_of
from kymograph._sweep.heartbeat import PARTIAL, RUNNING, Beat, read_beats

_MOST_RECORDS = 1 << 16
_WITH_RESULTS = ("finished", "diverged")
_RECORD_FILES = (STATUS, CONFIG, SUMMARY, ARRAYS, CHECKPOINT)
_THIN_FILES = (THIN_ARRAYS, THIN_DOCUMENT)


_records: dict[Path, tuple[tuple[Stamp | None, ...], StoredRun | KymographError]] = {}


def checked_record(
    directory: Path, stamps: tuple[Stamp | None, ...], planned: RunSpec | None
) -> StoredRun | KymographError:
    """Returns the run of an intact record, or why it cannot be read; a record is read once until it is replaced."""
    stamps_when_read, record = _records.get(directory, ((), None))
    if record is None or stamps_when_read != stamps:
        if len(_records) > _MOST_RECORDS:
            _records.clear()
        try:
            record = stored_run(directory, planned)
            record.check(keep=False)
            record.check_network_size()
        except KymographError as error:
            record = KymographError(str(error))  # without a traceback, which would keep the content alive
        _records[directory] = stamps, record
    return record


def logged_runs(directory: Directory) -> Mapping[str, Mapping[str, RunSpec]]:
    """Returns the runs that the log lists by now, by study's directory and run's directory."""
    directory.covering_log.refresh()
    runs: dict[str, dict[str, RunSpec]] = {}
    for run in directory.covering_history.planned.values():
        study, name = run.directory.split("/")
        runs.setdefault(study, {})[name] = run
    return runs


@functools.lru_cache(maxsize=64)
def _read_declaration(directory: Path, stamp: Stamp | None) -> Declaration | None:
    return None if stamp is None else read_declaration(directory)


@dataclass(frozen=True)
class RunState:
    """A run that is planned, stored, or both."""

    id: str
    arm: str
    seed: int
    condition: Condition
    spec: RunSpec | None = None
    """None for a record that was not planned and cannot be read."""
    stored: StoredRun | None = None
    ended_at: float = 0.0
    reason: str = ""


def read_state(directory: Directory | str | Path, now: float) -> LiveState:
    """Returns the state of ``directory``, an output directory or a study's own, at the time ``now``."""
    directory = Directory.of(directory)
    root = directory.root
    check_directory(root)
    logged = logged_runs(directory)
    is_study = not (root / LOG).is_dir() and _is_study(root, logged)  # one of its studies may be called like it
    paths = [root] if is_study else [path for path in _directories(root) if _is_study(path, logged)]
    studies = [_read_study(path, logged.get(real_path(path).name, {}), now) for path in paths]
    # Unfinished ones first.
    return LiveState(str(root), tuple(sorted(studies, key=lambda study: (study.ended, study.order, study.name))))


def _read_study(directory: Path, planned: Mapping[str, RunSpec], now: float) -> StudyState:
    beats = read_beats(directory, now)
    working = [beat for beat in beats if beat.alive]
    every = [
        run
        for name in dict.fromkeys([*planned, *(path.name for path in _directories(directory))])
        if (run := _read_run(directory / name, planned.get(name), beats)) is not None
    ]
    name = next((run.spec.study for run in every if run.spec is not None), directory.name)
    notes: list[str] = []
    stored = None
    try:
        stored = _read_declaration(directory, stamp_of(directory / DECLARATION))
    except KymographError as error:
        notes.append(str(error))
    declaration = declaration_of(name, {} if stored is None else {name: stored})
    code = current_code((run.spec for run in every if run.spec is not None), {name: declaration})
    runs = [run for run in every if run.spec is None or code[run.spec.study].made(run.spec)]
    position = {arm.name: index for index, arm in enumerate(declaration.arms)}
    groups = by_arm_and_settings(sorted(runs, key=lambda run: position.get(run.arm, len(position))))
    counts = _count(runs)
    styles = arm_styles(declaration, dict.fromkeys(run.arm for run in runs))
    lost = [run for run in runs if run.condition in ("diverged", "failed", "damaged")]
    running, missing = ({run.id for run in runs if run.condition == state} for state in ("running", "missing"))
    shown = [beat for beat in beats if beat.alive or missing & set(beat.runs)]  # at work, or ended before its runs did
    done = [len(running & set(beat.runs)) * min(beat.done / beat.steps, 1.0) for beat in working if beat.steps]
    return StudyState(
        name=name,
        order=declaration.order,
        counts=counts,
        eta=_eta(groups, counts, working, now),
        processes=tuple(_process(beat, {run.id: run for run in every}) for beat in shown),
        lost=tuple(LostRunState(run.arm, run.seed, run.condition, run.reason) for run in lost),
        arms=tuple(_arms(declaration, groups, styles)),
        superseded=len(every) - len(runs),
        notes=tuple(notes),
        progress=counts.done + counts.failed + sum(done),
        network=_network(declaration, runs),
    )


def _read_run(directory: Path, planned: RunSpec | None, beats: Sequence[Beat]) -> RunState | None:
    """Returns the state of one run; None for a directory that is not a run."""
    stamps = tuple(stamp_of(f"{directory}/{name}") for name in _RECORD_FILES)
    if stamps[_RECORD_FILES.index(ARRAYS)] is None:
        stamps += tuple(stamp_of(f"{directory}/{name}") for name in _THIN_FILES)
    condition: Condition
    if stamps[0] is None:
        if planned is None:
            return None
        run_id = directory.name.rsplit("-", 1)[-1]
        alive = [beat.alive for beat in beats if run_id in beat.runs]
        condition = "running" if any(alive) else "missing" if alive else "waiting"
        return RunState(run_id, planned.arm, planned.seed, condition, planned)
    written = stamps[0][0] / 1e9
    stored = checked_record(directory, stamps, planned)
    if isinstance(stored, KymographError):
        damaged = damaged_run(directory, stored)
        arm, seed = (damaged.arm, damaged.seed) if planned is None else (planned.arm, planned.seed)
        state = RunState(damaged.id, arm, seed, "damaged", planned, None, written, damaged.reason)
    else:
        divergence = stored.divergence
        condition = "failed" if not stored.has_results else "finished" if divergence is None else "diverged"
        reason = stored.reason or "" if divergence is None or divergence.step is None else f"at step {divergence.step}"
        state = RunState(stored.id, stored.arm, stored.seed, condition, stored.spec, stored, written, reason)
    # A failure from before a process started is history: the run is being computed again.
    retried = any(beat.alive and beat.started > written for beat in beats if state.id in beat.runs)
    if state.condition in _WITH_RESULTS or not retried:
        return state
    return RunState(state.id, state.arm, state.seed, "running", state.spec)


def _count(runs: Sequence[RunState]) -> RunCounts:
    conditions: list[str] = [run.condition for run in runs]
    return RunCounts(**{field.name: conditions.count(field.name) for field in dataclasses.fields(RunCounts)})


def _arms(
    declaration: Declaration, groups: Mapping[str, Sequence[RunState]], styles: Mapping[str, ArmStyle]
) -> Iterator[ArmState]:
    counts = [_count(runs) for runs in groups.values()]
    in_detail = set(arms_in_detail(counts))
    for index, (name, runs) in enumerate(groups.items()):
        style = styles[runs[0].arm]
        plain = ArmState(name, counts[index], (), None, style.label + name.removeprefix(runs[0].arm), style.colour)
        yield _with_numbers(plain, declaration, runs) if index in in_detail else plain


def _with_numbers(arm: ArmState, declaration: Declaration, runs: Sequence[RunState]) -> ArmState:
    finished = sorted((run for run in runs if run.condition in _WITH_RESULTS), key=lambda run: run.seed)
    latest = max(finished, key=lambda run: run.ended_at, default=None)
    return dataclasses.replace(
        arm,
        headlines=headlines(declaration, [run.stored.summary for run in finished if run.stored is not None]),
        trace=None
        if latest is None or latest.stored is None
        else trace_series(latest.stored, traced_names(declaration)),
    )


def _network(declaration: Declaration, runs: Sequence[RunState]) -> TracedNetwork | None:
    """Returns the network of the run that ended last; a picture per arm would fill the screen."""
    latest = max((run for run in runs if run.condition in _WITH_RESULTS), key=lambda run: run.ended_at, default=None)
    return None if latest is None or latest.stored is None else trace_network(latest.stored, declared_maps(declaration))


def _process(beat: Beat, runs: Mapping[str, RunState]) -> ProcessState:
    members = [runs[run] for run in beat.runs if run in runs]
    return ProcessState(
        process=beat.pid,
        runs=len(beat.runs),
        arms=tuple(dict.fromkeys(run.arm for run in members)),
        seeds=tuple(dict.fromkeys(run.seed for run in members)),
        done=min(beat.done, beat.steps) if beat.steps else beat.done,
        steps=beat.steps,
        message=beat.words,
        started=beat.started,
        alive=beat.alive,
        host="" if beat.host == Process.this().host else beat.host,
    )


def _eta(groups: Mapping[str, Sequence[RunState]], counts: RunCounts, beats: Sequence[Beat], now: float) -> int | None:
    if not beats or not counts.running + counts.waiting + counts.missing:
        return None
    took = [[run.stored.seconds for run in runs if run.stored and run.stored.seconds] for runs in groups.values()]
    left = [sum(run.condition in ("waiting", "missing") for run in runs) for runs in groups.values()]
    seconds = remaining_seconds(took, left, beats, now)
    return None if seconds is None else round(seconds)


def _is_study(path: Path, logged: Mapping[str, Any]) -> bool:
    """Returns whether a directory has planned runs, a heartbeat, or runs."""
    if real_path(path).name in logged or (path / RUNNING).is_dir():
        return True
    return any((run / STATUS).exists() for run in _directories(path))


def _directories(path: Path) -> Iterator[Path]:
    """Yields the directories inside ``path`` that may be runs or studies: not hidden, not half-written."""
    try:
        names = [entry.name for entry in entries(path) if is_directory_entry(entry)]
    except OSError:
        return
    yield from (path / name for name in names if not name.startswith(".") and not name.endswith(PARTIAL))


READ_AGAIN_AFTER = 60.0
"""Seconds after which everything is read again, whether or not something seems to have changed."""
SHARE = 0.1
"""The largest share of a core that reading may take while a sweep is running."""
NEGLIGIBLE = 0.1
"""CPU seconds that a reading may take without being limited."""
_COARSE = 2 * 10**9
"""Nanoseconds within which two changes may have the same date."""

ModificationTimes = tuple[tuple[str, int], ...]


class Watcher:
    """The state of one directory, as of its last reading."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._read = Directory(directory)
        self._state: LiveState | None = None
        self._modification_times: ModificationTimes = ()
        self._read_at, self._cost = 0.0, 0.0

    def state(self, now: float) -> LiveState:
        """Returns the state at the time ``now``, the same object as before unless it was read again."""
        times = tuple(_modification_times(Path(self._directory)))
        if self._state is None or self._is_due(self._state, times):
            started = time.process_time()
            try:
                if not self._read.covering_log.order:  # nothing was planned yet: it may become a study's own directory
                    self._read = Directory(self._directory)
                self._state = read_state(self._read, now)
            except KymographError:  # the directory is gone, and may come back
                self._state = LiveState(self._directory, ())
            self._cost, self._read_at, self._modification_times = time.process_time() - started, time.monotonic(), times
        return self._state

    def _is_due(self, state: LiveState, times: ModificationTimes) -> bool:
        since = time.monotonic() - self._read_at
        if self._cost > NEGLIGIBLE and since < self._cost / SHARE:
            return False
        at_work = any(process.alive for study in state.studies for process in study.processes)
        just_now = max((modified for _, modified in self._modification_times), default=0) > time.time_ns() - _COARSE
        return at_work or just_now or times != self._modification_times or since > READ_AGAIN_AFTER


def _modification_times(root: Path) -> Iterator[tuple[str, int]]:
    """Yields the dates of all directories and files that change along with a run, the log or a heartbeat."""
    for directory in (root, root / LOG, root.parent / LOG, root / RUNNING):
        yield from _modification_times_in(directory)
    try:
        directories = [entry for entry in entries(root) if is_directory_entry(entry)]
    except OSError:
        return
    if any(os.path.exists(f"{root}/{name}") for name in (DECLARATION, RUNNING)):
        return  # a study's own directory, which contains runs
    for path in (entry.path for entry in directories if not entry.name.startswith(".")):
        for changing in (path, f"{path}/{DECLARATION}"):
            with contextlib.suppress(OSError):
                yield changing, os.stat(changing).st_mtime_ns
        yield from _modification_times_in(Path(path) / RUNNING)


def _modification_times_in(directory: Path) -> Iterator[tuple[str, int]]:
    """Yields the dates of a directory and of each file in it."""
    with contextlib.suppress(OSError):
        yield str(directory), os.stat(directory).st_mtime_ns
        for entry in entries(directory):
            with contextlib.suppress(OSError):
                if entry.is_file():
                    yield entry.path, entry.stat().st_mtime_ns
