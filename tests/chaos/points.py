"""Write points of a command: the moments at which it is about to change the file system, and what happens there.

A command runs in a fork of a warm process, so that it starts at once. An audit hook and wrapped writers count every
point below a directory: files opened for writing, pieces written, flushed to disk, renamed, linked and removed, and
every statement that an SQLite database is given. At one of them the process is killed, or the disk is full, or nothing
may be written. Nothing in the program knows of it.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import resource
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_EVENTS = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.chmod", "os.truncate"}
SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """How a command in a fork ended."""

    code: int
    """Its exit code; minus the signal's number if one ended it."""
    out: str
    points: int
    """How many write points it came to."""


class Points:
    """Counts write points below ``roots`` and calls ``act`` at the one numbered ``at``; from 1."""

    def __init__(self, roots: Sequence[Path], at: int | None, act: Callable[[], None], forever: bool = False) -> None:
        self._roots = tuple(os.path.realpath(root) for root in roots)
        self._at, self._act, self._forever = at, act, forever
        self.count = 0
        self._open, self._fsync, self._connect = io.open, os.fsync, sqlite3.connect

    def install(self) -> None:
        """Watches this process from now on; there is no way back, which is why it is a fork."""
        sys.addaudithook(self._audit)
        builtins.open = io.open = self._opened  # type: ignore[assignment]
        os.fsync = self._synced
        sqlite3.connect = sqlite3.dbapi2.connect = self._connected  # type: ignore[assignment, attr-defined]

    def pass_by(self) -> None:
        """Counts one point."""
        self.count += 1
        if self._at is not None and (self.count == self._at or (self._forever and self.count > self._at)):
            self._act()

    def inside(self, path: Any, directory: Any = None) -> bool:
        """Says whether a name, from a directory's handle if there is one, lies below the roots."""
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        start = os.readlink(f"/proc/self/fd/{directory}") if isinstance(directory, int) and directory >= 0 else ""
        text = os.path.abspath(os.path.join(start, os.fsdecode(path)))
        return any(text == root or text.startswith(root + os.sep) for root in self._roots)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            by_flags = isinstance(flags, int) and flags & _WRITING
            if (by_flags or (isinstance(mode, str) and set(mode) & set("wax+"))) and self.inside(path):
                self.pass_by()
        elif event in _EVENTS:
            last = arguments[-1] if event in ("os.remove", "os.rmdir", "os.mkdir") else None
            target = arguments[1] if event in ("os.rename", "os.link", "os.symlink") else arguments[0]
            if self.inside(target, last):
                self.pass_by()

    def _connected(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """Connects with a database; every statement is a point, from whatever library it comes."""
        connection = self._connect(*arguments, **options)
        connection.set_trace_callback(lambda statement: self.pass_by())
        return connection

    def _synced(self, handle: int) -> None:
        self.pass_by()
        self._fsync(handle)

    def _opened(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        """Opens a file; what is written to a binary one inside is a point in its middle."""
        name = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else file
        if mode not in ("wb", "xb", "w+b", "wb+") or not self.inside(name) or arguments or options:
            return self._open(file, mode, *arguments, **options)
        return _Halving(self, io.FileIO(file, mode.replace("b", ""))) if "+" not in mode else self._open(file, mode)


class _Halving(io.BufferedWriter):
    """Writes half of a piece, comes to a point, and writes the rest."""

    def __init__(self, points: Points, raw: io.FileIO) -> None:
        super().__init__(raw)
        self._points = points

    def write(self, content: Any) -> int:
        view = memoryview(content)
        super().write(view[: len(view) // 2])
        self.flush()
        self._points.pass_by()
        super().write(view[len(view) // 2 :])
        return len(view)


def kill() -> None:
    """Ends this process as a lack of memory or an operator would."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number: int) -> Callable[[], None]:
    """Returns what raises the system's error of this number."""

    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


FULL, READ_ONLY, NO_INODES = errno.ENOSPC, errno.EROFS, errno.EDQUOT


def forked(
    words: Sequence[str],
    directory: Path,
    roots: Sequence[Path] = (),
    at: int | None = None,
    act: Callable[[], None] = kill,
    *,
    forever: bool = False,
    before: Callable[[], None] | None = None,
) -> Ended:
    """Runs a command in a fork, in ``directory``; returns how it ended.

    Args:
        words: the command line.
        directory: where it runs.
        roots: where its write points are counted; the second is its directory of temporary files.
        at: the number of the write point at which ``act`` is called; default: at none.
        act: what happens there.
        forever: whether it happens at every later point as well, as on a disk that stays full.
        before: called in the fork before the command.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as facts:
        child = os.fork()
        if child == 0:
            if len(roots) > 1:
                tempfile.tempdir = os.environ["TMPDIR"] = str(roots[1])
            _be_the_command(words, directory, out.fileno(), facts.fileno(), Points(roots, at, act, forever), before)
        status = _waited(child)
        out.seek(0)
        facts.seek(0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Ended(code, out.read().decode("utf-8", "replace"), int(facts.read() or b"0"))


def _waited(child: int) -> int:
    """Waits for a process, and ends one that hangs."""
    deadline = time.monotonic() + SECONDS
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGXCPU)
            return os.waitpid(child, 0)[1]
        time.sleep(0.002)


def _be_the_command(
    words: Sequence[str], directory: Path, out: int, facts: int, points: Points, before: Callable[[], None] | None
) -> None:
    """Runs the command and ends the process, without what the test runner does at its own end."""
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        os.chdir(directory)
        from kymograph._cli.main import main

        if before is not None:
            before()
        points.install()
        try:
            main(list(words))
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        points._at = None
        os.pwrite(facts, str(points.count).encode(), 0)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os._exit(code)


def little_memory(size: int) -> Callable[[], None]:
    """Returns what lets this process have no more than ``size`` bytes beyond what it has."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size,) * 2)

    return limit
