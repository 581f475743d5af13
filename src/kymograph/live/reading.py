"""Reading the state of a directory of runs.

`read_state` is a pure function of the directory and the clock. It never writes; a damaged file becomes a sentence in
the state, so that a view still shows everything else. A file's content is cached until the file is replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.figures.arm_looks import ArmLook, arm_looks
from kymograph.foreign.files import entries, is_directory_entry, real_path
from kymograph.live.file_cache import (
    checked_record,
    listed_runs,
    logged_runs,
    record_stamps,
    stamp,
    stored_declaration,
)
from kymograph.live.numbers import headlines, remaining_seconds, trace_series, traced_names
from kymograph.live.state import ArmState, Condition, LiveState, LostRunState, ProcessState, RunCounts, StudyState
from kymograph.runs.archive import damaged_run
from kymograph.runs.declaration import FILE as DECLARATION
from kymograph.runs.declaration import Declaration
from kymograph.runs.planned import PLAN
from kymograph.runs.processes import Process
from kymograph.runs.record import STATUS
from kymograph.runs.setting_groups import by_arm_and_settings
from kymograph.runs.spec import RunSpec
from kymograph.runs.stored import StoredRun
from kymograph.runs.superseded import current_code
from kymograph.studies.loading import declaration_of
from kymograph.sweep.heartbeat import RUNNING, Beat, read_beats


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


def read_state(directory: str | Path, now: float) -> LiveState:
    """Returns the state of ``directory``, an output directory or a study's own, at the time ``now``."""
    check_directory(directory)
    root = Path(directory)
    logged = logged_runs(root)
    paths = [root] if _is_study(root, logged) else [path for path in _directories(root) if _is_study(path, logged)]
    studies = [_read_study(path, logged.get(real_path(path).name, {}), now) for path in paths]
    # Unfinished ones first.
    return LiveState(str(directory), tuple(sorted(studies, key=lambda study: (study.ended, study.order, study.name))))


def check_directory(directory: str | Path) -> None:
    """Raises if there is no such directory."""
    if not Path(directory).is_dir():
        raise KymographError(
            f"there is no directory {directory}; make one with `kymograph run STUDY --out {directory}`"
        )


def reread_state(directory: str | Path, now: float) -> LiveState:
    """Returns the state of a directory that existed before; empty if the directory is gone, as it may come back."""
    try:
        return read_state(directory, now)
    except KymographError:
        return LiveState(str(directory), ())


def _read_study(directory: Path, logged: Mapping[str, RunSpec], now: float) -> StudyState:
    notes: list[str] = []
    planned = logged
    try:
        planned = {**listed_runs(directory / PLAN, stamp(directory / PLAN)), **logged}
    except FileNotFoundError:
        pass  # only directories from before the log have a plan file
    except KymographError as error:
        notes.append(str(error))
    beats = read_beats(directory, now)
    found = [
        run
        for name in dict.fromkeys([*planned, *(path.name for path in _directories(directory))])
        if (run := _read_run(directory / name, planned.get(name), beats)) is not None
    ]
    name = next((run.spec.study for run in found if run.spec is not None), directory.name)
    declaration = _declaration_of(directory, name, notes)
    code = current_code((run.spec for run in found if run.spec is not None), {name: declaration})
    runs = [run for run in found if run.spec is None or code[run.spec.study].made(run.spec)]
    position = {arm.name: index for index, arm in enumerate(declaration.arms)}
    groups = by_arm_and_settings(sorted(runs, key=lambda run: position.get(run.arm, len(position))))
    counts = _count(runs)
    looks = arm_looks(declaration, dict.fromkeys(run.arm for run in runs))
    lost = [run for run in runs if run.condition in ("failed", "damaged")]
    return StudyState(
        name=name,
        order=declaration.order,
        counts=counts,
        eta=_eta(groups, counts, [beat for beat in beats if beat.alive], now),
        processes=tuple(_process(beat, {run.id: run for run in found}) for beat in _unfinished(beats, runs)),
        lost=tuple(LostRunState(run.arm, run.seed, run.condition, run.reason) for run in lost),
        arms=tuple(_arm(declaration, label, members, looks) for label, members in groups.items()),
        superseded=len(found) - len(runs),
        notes=tuple(notes),
        progress=_progress(counts, [beat for beat in beats if beat.alive], runs),
    )


def _progress(counts: RunCounts, beats: Sequence[Beat], runs: Sequence[RunState]) -> float:
    """Returns how many runs are done, where a running one counts by the share of its steps."""
    running = {run.id for run in runs if run.condition == "running"}
    shares = [len(running & set(beat.runs)) * min(beat.done / beat.steps, 1.0) for beat in beats if beat.steps]
    return counts.finished + counts.failed + sum(shares)


def _declaration_of(directory: Path, name: str, notes: list[str]) -> Declaration:
    """Returns what the study in ``directory`` declares; if its file is damaged, a note says so."""
    try:
        stored = stored_declaration(directory, stamp(directory / DECLARATION))
    except OSError:
        stored = None  # a directory from before there were declarations
    except KymographError as error:
        stored = None
        notes.append(str(error))
    return declaration_of(name, {} if stored is None else {name: stored})


def _read_run(directory: Path, planned: RunSpec | None, beats: Sequence[Beat]) -> RunState | None:
    """Returns the state of one run; None for a directory that is not a run."""
    stamps = record_stamps(directory)
    if stamps[0] is None:
        return None if planned is None else _without_record(directory.name, planned, beats)
    written = stamps[0][0] / 1e9
    stored = checked_record(directory, stamps, planned)
    if isinstance(stored, KymographError):
        damaged = damaged_run(directory, stored)
        arm, seed = (damaged.arm, damaged.seed) if planned is None else (planned.arm, planned.seed)
        state = RunState(damaged.id, arm, seed, "damaged", planned, None, written, damaged.reason)
    else:
        condition: Condition = "finished" if stored.status == "finished" else "failed"
        state = RunState(
            stored.id, stored.arm, stored.seed, condition, stored.spec, stored, written, stored.reason or ""
        )
    # A failure from before a process started is history: the run is being computed again.
    retried = any(beat.alive and beat.started > written for beat in beats if state.id in beat.runs)
    if state.condition == "finished" or not retried:
        return state
    return RunState(state.id, state.arm, state.seed, "running", state.spec)


def _without_record(name: str, planned: RunSpec, beats: Sequence[Beat]) -> RunState:
    run_id = name.rsplit("-", 1)[-1]
    run_beats = [beat for beat in beats if run_id in beat.runs]
    condition: Condition = "running" if any(beat.alive for beat in run_beats) else "missing" if run_beats else "waiting"
    return RunState(run_id, planned.arm, planned.seed, condition, planned)


def _count(runs: Sequence[RunState]) -> RunCounts:
    conditions: list[str] = [run.condition for run in runs]
    return RunCounts(**{field.name: conditions.count(field.name) for field in dataclasses.fields(RunCounts)})


def _arm(declaration: Declaration, name: str, runs: Sequence[RunState], looks: Mapping[str, ArmLook]) -> ArmState:
    finished = sorted((run for run in runs if run.condition == "finished"), key=lambda run: run.seed)
    latest = max(finished, key=lambda run: run.ended_at, default=None)
    look = looks[runs[0].arm]
    return ArmState(
        name,
        _count(runs),
        headlines(declaration, [run.stored.summary for run in finished if run.stored is not None]),
        None if latest is None or latest.stored is None else trace_series(latest.stored, traced_names(declaration)),
        look.label + name.removeprefix(runs[0].arm),
        look.colour,
    )


def _unfinished(beats: Sequence[Beat], runs: Sequence[RunState]) -> list[Beat]:
    """Returns the heartbeats of running processes, and of those that ended with runs missing."""
    missing = {run.id for run in runs if run.condition == "missing"}
    return [beat for beat in beats if beat.alive or missing & set(beat.runs)]


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
    if real_path(path).name in logged or (path / PLAN).exists() or (path / RUNNING).is_dir():
        return True
    return any((run / STATUS).exists() for run in _directories(path))


def _directories(path: Path) -> Iterator[Path]:
    """Yields the directories inside ``path`` that may be runs or studies: not hidden, not half-written."""
    try:
        names = [entry.name for entry in entries(path) if is_directory_entry(entry)]
    except OSError:
        return
    yield from (path / name for name in names if not name.startswith(".") and not name.endswith(".part"))
