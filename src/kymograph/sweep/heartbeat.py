"""The heartbeat of a running process, progress read from it, and what killed processes left behind.

[sweep.heartbeat] The heartbeat of a running process: ``STUDY/.running/PROCESS.json`` says what it computes and how far it has got.

The training thread only counts steps; a separate thread writes them to disk once a second. Nothing here draws random
numbers or touches a tensor, so training is bit-identical with and without it. A beat that cannot be written is skipped:
only watchers read it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kymograph.errors import KymographError
from kymograph.io.documents import read_json
from kymograph.io.files import entries
from kymograph.io.processes import Process, remove_abandoned_files, silence
from kymograph.io.writing import make_directory, write_atomically
from kymograph.runs.spec import slug
from kymograph.sweep.orders import Stack

if TYPE_CHECKING:
    from kymograph.sweep.compute import Follower


RUNNING = ".running"
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


class Heartbeat:
    """Passes progress on to ``follower`` and writes the heartbeat of this process; use it as a context manager."""

    def __init__(self, root: Path, stack: Stack, follower: Follower) -> None:
        self._follower, self._steps = follower, stack.steps
        self._runs = [spec.id for spec, missing in zip(stack.specs, stack.missing, strict=True) if missing]
        self._root, self._directory = root, root / slug(stack.specs[0].study) / RUNNING
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
        facts = {
            "schema": SCHEMA,
            **asdict(Process.this()),
            "runs": self._runs,
            "done": self._done,
            "steps": self._steps,
            "words": self._words,
            "started": self._started,
            "updated": time.time(),
        }
        with contextlib.suppress(KymographError):
            make_directory(self._directory, self._root)
            write_atomically(self._path, json.dumps(facts).encode())


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
            facts = read_json(path, _MAX_BEAT, follow=False)
            beat = Beat(
                pid=int(facts["pid"]),
                runs=tuple(map(str, facts["runs"])),
                done=int(facts["done"]),
                steps=int(facts["steps"]),
                words=str(facts["words"]),
                started=float(facts["started"]),
                updated=float(facts["updated"]),
                alive=_alive(path, facts, now),
                host=str(facts["host"]),
            )
            yield path, beat


def _remove_dead_beats(directory: Path, root: Path) -> None:
    """Removes the beats and temporary files of dead processes; raises if a link leads out of ``root``."""
    remove_abandoned_files(directory, root)
    with contextlib.suppress(OSError):
        for path, beat in _beats(directory, time.time()):
            if not beat.alive:
                path.unlink(missing_ok=True)


def at_work(study: Path, root: Path) -> bool:
    """Returns whether a process is at work in a study's directory below ``root``; removes the beats of dead ones."""
    directory = study / RUNNING
    _remove_dead_beats(directory, root)
    with contextlib.suppress(OSError):
        directory.rmdir()
    return directory.exists()


def _alive(path: Path, facts: dict[str, Any], now: float) -> bool:
    """Returns whether the process that wrote ``facts`` is still running, and not another one with the same PID."""
    # A beat that predates process tables matches none here, so its age decides.
    process = Process(str(facts["host"]), str(facts.get("table")), int(facts["pid"]), str(facts.get("born")))
    return process.is_alive(silence(path, now))


PART = ".part"
"""The suffix of a directory with the resume state of an unfinished run."""


def remove_leftovers(root: Path, study: str, stacks: Iterable[Stack]) -> None:
    """Removes half-written records, old beats, and the resume states of stored runs.

    The resume states stay while a process is at work: it may be recomputing a stored run with the rest of its stack.
    """
    directory = root / slug(study)
    remove_abandoned_files(directory, root)
    if at_work(directory, root):
        return
    with contextlib.suppress(OSError):
        parts = {entry.name for entry in entries(directory) if entry.name.endswith(PART)}
        stored = (
            spec for stack in stacks for spec, absent in zip(stack.specs, stack.missing, strict=True) if not absent
        )
        for spec in stored if parts else ():
            name = f"{Path(spec.directory).name}{PART}"
            if name in parts:
                shutil.rmtree(directory / name, ignore_errors=True)
