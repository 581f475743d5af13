"""A directory watched over time: read again only when something in it has changed, and seldom enough to be cheap.

A watcher knows the sweep only through its files. Records come and go by rename, which changes the date of their
directory: while no date changes and no process is running, ten thousand runs need not be read. A file that is edited in
place shows at the next full reading.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from kymograph.foreign.files import entries, is_directory_entry
from kymograph.live.reading import reread_state
from kymograph.live.state import LiveState
from kymograph.runs.declaration import FILE as DECLARATION
from kymograph.runs.log import DIRECTORY as LOG
from kymograph.sweep.heartbeat import RUNNING

LOOK_AT_ALL = 60.0
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
        self._state: LiveState | None = None
        self._modification_times: ModificationTimes = ()
        self._read_at, self._cost = 0.0, 0.0

    def state(self, now: float) -> LiveState:
        """Returns the state at the time ``now``, the same object as before unless it was read again."""
        times = tuple(_modification_times(Path(self._directory)))
        if self._state is None or self._is_due(self._state, times):
            started = time.process_time()
            self._state = reread_state(self._directory, now)
            self._cost, self._read_at, self._modification_times = time.process_time() - started, time.monotonic(), times
        return self._state

    def _is_due(self, state: LiveState, times: ModificationTimes) -> bool:
        since = time.monotonic() - self._read_at
        if self._cost > NEGLIGIBLE and since < self._cost / SHARE:
            return False
        at_work = any(process.alive for study in state.studies for process in study.processes)
        just_now = max((modified for _, modified in self._modification_times), default=0) > time.time_ns() - _COARSE
        return at_work or just_now or times != self._modification_times or since > LOOK_AT_ALL


def _modification_times(root: Path) -> Iterator[tuple[str, int]]:
    """Yields the dates of all directories and files that change along with a run, a plan or a heartbeat."""
    for directory in (root, root / LOG, root.parent / LOG, root / RUNNING):
        yield from _modification_times_in(directory)
    try:
        directories = [entry for entry in entries(root) if is_directory_entry(entry)]
    except OSError:
        return
    if any(os.path.exists(f"{root}/{name}") for name in (DECLARATION, RUNNING)):
        return  # a study's own directory, which contains runs
    for path in (entry.path for entry in directories if not entry.name.startswith(".")):
        yield from _modification_time(path)
        yield from _modification_time(f"{path}/{DECLARATION}")
        yield from _modification_times_in(Path(path) / RUNNING)


def _modification_times_in(directory: Path) -> Iterator[tuple[str, int]]:
    """Yields the dates of a directory and of each file in it."""
    yield from _modification_time(str(directory))
    with contextlib.suppress(OSError):
        for entry in entries(directory):
            with contextlib.suppress(OSError):
                if entry.is_file():
                    yield entry.path, entry.stat().st_mtime_ns


def _modification_time(path: str) -> Iterator[tuple[str, int]]:
    try:
        yield path, os.stat(path).st_mtime_ns
    except OSError:
        return
