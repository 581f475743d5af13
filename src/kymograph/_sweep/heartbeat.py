"""The heartbeat of a running process: ``STUDY/.running/PROCESS.json`` says what it computes and how far it has got.

The training thread only counts steps; a separate thread writes them to disk once a second. Nothing here draws random
numbers or touches a tensor, so training is bit-identical with and without it. A beat that cannot be written is skipped:
only watchers read it. Where no process is at work, what killed ones left behind may be removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from kymograph._errors import KymographError
from kymograph._io.documents import read_json
from kymograph._io.files import entries
from kymograph._io.processes import Process, remove_abandoned_files, silence
from kymograph._io.writing import make_directory, write_atomically
from kymograph._runs.spec import slug
from kymograph._sweep.orders import Stack
from kymograph._sweep.progress import Follower

RUNNING = ".running"
PARTIAL = ".part"
"""The suffix of a directory with the resume state of an unfinished run."""
SCHEMA = 1
EVERY = 1.0
"""The least number of seconds between two beats."""
PROOF_OF_LIFE = 10.0
"""Seconds after which a beat is written even if nothing changed, for watchers on other machines."""
_MAX_BEAT = 16 * 2**20


@dataclass(frozen=True)
class Beat:
    """What one process was computing at its last heartbeat: the ids of its runs, and its steps in total and done."""

    pid: int
    runs: tuple[str, ...]
    done: int
    steps: int
    words: str
    started: float
    updated: float
    alive: bool
    host: str = ""


class Heartbeat(Follower):
    """Passes progress on to ``follower`` and writes the heartbeat of this process; use it as a context manager.

    ``lock`` is a lock of this process that lasts as long as the heart beats: other hosts judge its owner by its age.
    """

    def __init__(self, root: Path, stack: Stack, follower: Follower, lock: Path | None = None) -> None:
        self._follower, self._steps, self._lock = follower, stack.steps, lock
        self._runs = stack.missing_runs
        self._root, self._directory = root, stack.study_directory(root) / RUNNING
        self._path = self._directory / f"{Process.this().mark}.json"
        self._done, self._words = 0, ""
        self._started = time.time()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, daemon=True)

    def expect(self, steps: int) -> None:
        """Sets the total number of steps, for a loop that knows it only when it begins; 0: unknown."""
        self._steps = steps

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self._done += steps
        self._follower.tick(steps)

    def say(self, text: str) -> None:
        """Notes the current run's progress in words."""
        self._words = text
        self._follower.say(text)

    def __enter__(self) -> Heartbeat:
        _remove_dead_beats(self._directory, self._root)
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._directory.rmdir()  # fails, as it should, while another process is running

    def _keep_beating(self) -> None:
        written, at = (0, ""), time.monotonic()
        while not self._ended.wait(EVERY):
            now = (self._done, self._words)
            if now != written or time.monotonic() - at > PROOF_OF_LIFE:
                self._beat()
                written, at = now, time.monotonic()

    def _beat(self) -> None:
        content = {
            "schema": SCHEMA,
            **asdict(Process.this()),
            "runs": self._runs,
            "done": self._done,
            "steps": self._steps,
            "words": self._words,
            "started": self._started,
            "updated": time.time(),
        }
        if self._lock is not None:
            # A lock that is gone or belongs to someone else is noticed by its holder when the run ends; Windows cannot
            # change the time of a link.
            with contextlib.suppress(OSError, NotImplementedError):
                os.utime(self._lock, follow_symlinks=False)
        with contextlib.suppress(KymographError):
            make_directory(self._directory, self._root)
            write_atomically(self._path, json.dumps(content).encode())


def read_beats(directory: Path, now: float) -> list[Beat]:
    """Returns the beats below a study's ``directory``, each with whether its process is alive at the time ``now``.

    A file that is not a beat is skipped: beats come and go, and none is worth an error.
    """
    return [beat for _, beat in _beats(directory / RUNNING, now)]


def _beats(directory: Path, now: float) -> Iterator[tuple[Path, Beat]]:
    try:
        paths = sorted(directory.glob("*.json"))
    except OSError:  # the last process to end removes the directory, perhaps while it is being read
        return
    for path in paths:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, KymographError):
            content = read_json(path, _MAX_BEAT, follow=False)
            process = Process(str(content["host"]), str(content["table"]), int(content["pid"]), str(content["born"]))
            yield (
                path,
                Beat(
                    pid=process.pid,
                    runs=tuple(map(str, content["runs"])),
                    done=int(content["done"]),
                    steps=int(content["steps"]),
                    words=str(content["words"]),
                    started=float(content["started"]),
                    updated=float(content["updated"]),
                    alive=process.is_alive(silence(path, now)),
                    host=process.host,
                ),
            )


def _remove_dead_beats(directory: Path, root: Path) -> None:
    """Removes the beats and temporary files of dead processes; raises if a link leads out of ``root``."""
    remove_abandoned_files(directory, root)
    with contextlib.suppress(OSError):
        for path, beat in _beats(directory, time.time()):
            if not beat.alive:
                path.unlink(missing_ok=True)


def remove_leftovers(root: Path, study: str, stacks: Iterable[Stack]) -> None:
    """Removes half-written records, old beats, and the resume states of stored runs.

    The resume states stay while a process is at work: it may be recomputing a stored run with the rest of its stack.
    """
    directory = root / slug(study)
    remove_abandoned_files(directory, root)
    _remove_dead_beats(directory / RUNNING, root)
    with contextlib.suppress(OSError):
        (directory / RUNNING).rmdir()
    if (directory / RUNNING).exists():
        return
    with contextlib.suppress(OSError):
        partial = {entry.name for entry in entries(directory) if entry.name.endswith(PARTIAL)}
        for stack in stacks if partial else ():
            missing = stack.missing_runs
            stored = {f"{Path(spec.directory).name}{PARTIAL}" for spec in stack.specs if spec.id not in missing}
            for name in partial & stored:
                shutil.rmtree(directory / name, ignore_errors=True)
