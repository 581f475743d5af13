"""A live view's cache of files: each entry lasts until its file is replaced or edited."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.foreign.files import entries, real_path
from kymograph.runs.declaration import Declaration, read_declaration
from kymograph.runs.history import History
from kymograph.runs.log import DIRECTORY as LOG
from kymograph.runs.planned import is_output, log_of, read_plan_file
from kymograph.runs.record import ARRAYS, CHECKPOINT, CONFIG, STATUS, SUMMARY
from kymograph.runs.spec import RunSpec
from kymograph.runs.stored import StoredRun

Stamp = tuple[int, int, int]
_MOST_RECORDS = 1 << 16


def record_stamps(directory: Path) -> tuple[Stamp | None, ...]:
    """Returns the stamps of a record's files, that of its status first; None for a missing file."""
    return tuple(stamp_or_none(f"{directory}/{name}") for name in (STATUS, CONFIG, SUMMARY, ARRAYS, CHECKPOINT))


def stamp(path: str | Path) -> Stamp:
    """Returns a file's modification time, size and inode, which change when it is replaced or edited."""
    facts = os.stat(path)
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def stamp_or_none(path: str) -> Stamp | None:
    """Returns the stamp of a file; None if it is missing."""
    try:
        return stamp(path)
    except OSError:
        return None


_records: dict[Path, tuple[tuple[Stamp | None, ...], StoredRun | KymographError]] = {}


def checked_record(
    directory: Path, stamps: tuple[Stamp | None, ...], planned: RunSpec | None
) -> StoredRun | KymographError:
    """Returns the run of an intact record, or why it cannot be read; a record is read once until it is replaced."""
    known = _records.get(directory)
    if known is None or known[0] != stamps:
        if len(_records) > _MOST_RECORDS:
            _records.clear()
        known = _records[directory] = stamps, _read_record(directory, planned)
    return known[1]


def _read_record(directory: Path, planned: RunSpec | None) -> StoredRun | KymographError:
    try:
        run = StoredRun(directory, planned)
        run.check_sizes()
        run.check(keep=False)
    except KymographError as error:
        return KymographError(str(error))  # without a traceback, which would keep the content alive
    return run


def logged_runs(root: Path) -> Mapping[str, Mapping[str, RunSpec]]:
    """Returns the runs that the log lists, by study's directory and run's directory."""
    directory = (root if is_output(root) else real_path(root).parent) / LOG
    try:
        segments = [entry.path for entry in entries(directory) if entry.name.endswith(".jsonl")]
        return _read_log(root, tuple((path, stamp(Path(path))) for path in segments))
    except OSError:
        return {}  # a directory from before the log, or a segment that is being replaced


@functools.lru_cache(maxsize=8)
def _read_log(root: Path, segments: tuple[tuple[str, Stamp], ...]) -> Mapping[str, Mapping[str, RunSpec]]:
    found: dict[str, dict[str, RunSpec]] = {}
    for run in History(log_of(root)).planned.values():
        study, name = run.directory.split("/")
        found.setdefault(study, {})[name] = run
    return found


@functools.lru_cache(maxsize=64)
def listed_runs(path: Path, stamp: Stamp) -> Mapping[str, RunSpec]:
    """Returns the planned runs by the names of their directories."""
    return {run.directory.split("/")[-1]: run for run in read_plan_file(path)}


@functools.lru_cache(maxsize=64)
def stored_declaration(directory: Path, stamp: Stamp) -> Declaration | None:
    """Returns what the study in ``directory`` declares."""
    return read_declaration(directory)
