"""Which process wrote a file, and whether it is still running, on any host of a shared file system.

A PID alone does not identify a process: another host, or another container on this one, uses the same PIDs, and so will
a later process. A process is identified by its host, its process table, its PID and its start time. Only processes in
this process's own table can be queried; for any other, the age of its files is the only evidence.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kymograph._io.files import check_inside, entries

SILENCE = 60.0
"""Seconds without a sign of life after which a process that cannot be queried counts as gone."""
ABANDONED = 24 * 3600.0
"""Seconds after which half-written files of such a process may be removed; the space is not needed in a hurry."""
_UNKNOWN = "x"
_CLOCK_KEEPS = 60.0
_MARK = re.compile(r"([A-Za-z0-9_-]+)-([0-9a-f]{8})-([0-9]+)-([0-9]+|x)")


@dataclass(frozen=True)
class Process:
    """A process: its host, the process table it is listed in, its PID there, and its start time."""

    host: str
    table: str
    """Eight hex digits of a hash of boot and PID namespace: every container on a host has its own table."""
    pid: int
    born: str
    """Its start time, as Linux counts it; ``x`` where unknown."""

    @staticmethod
    def this() -> Process:
        """Returns the current process."""
        return _process(os.getpid())

    @property
    def mark(self) -> str:
        """The suffix of its files' names, unique to the process."""
        return f"{self.host}-{self.table}-{self.pid}-{self.born}"

    @staticmethod
    def of_mark(text: str) -> Process | None:
        """Returns the process with the mark ``text``; None if it is not a mark."""
        match = _MARK.fullmatch(text)
        return None if match is None else Process(match[1], match[2], int(match[3]), match[4])

    @property
    def can_be_queried(self) -> bool:
        """Whether it is listed in this process's own table."""
        return (self.host, self.table) == (_host(), _table())

    def is_alive(self, silent: float, patience: float = SILENCE) -> bool:
        """Returns whether the process is running; one that cannot be queried is, until it is ``silent`` too long."""
        if not self.can_be_queried:
            return silent < patience
        if self.pid < 1:
            return False  # 0 and below would address process groups
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:
            pass  # it exists and belongs to another user
        return self.born == _UNKNOWN or start_time(self.pid) == self.born


@functools.cache
def _process(pid: int) -> Process:
    return Process(_host(), _table(), pid, start_time(pid) or _UNKNOWN)  # cached by PID, as a fork is another process


@functools.cache
def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", platform.node())[:40] or "host"


@functools.cache
def _table() -> str:
    """Returns a hash that distinguishes this process table from that of another boot, host or container."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def start_time(pid: int) -> str | None:
    """Returns the start time of process ``pid``, as Linux counts it; None if it has ended or this is unknown."""
    try:
        # The name, which may contain anything, is in brackets; the state follows, and 19 fields later the start time.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].decode("ascii", "replace").split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None


def silence(path: Path, now: float | None = None) -> float:
    """Returns the seconds since ``path`` was written, by the file system's own clock: hosts' clocks disagree.

    ``now`` is a time on this host's clock; default: the current time. Raises OSError if there is no such file.
    """
    written = path.lstat().st_mtime
    here = time.time() if now is None else now
    return here + clock_offset(path.parent) - written


_offsets: dict[Path, tuple[float, float]] = {}


def clock_offset(directory: Path) -> float:
    """Returns how many seconds the clock of ``directory``'s file system is ahead of this host's; cached for a minute.

    If ``directory`` is not writable, the clocks are assumed to agree.
    """
    cached = _offsets.get(directory)
    if cached is not None and abs(time.monotonic() - cached[0]) < _CLOCK_KEEPS:
        return cached[1]
    offset = 0.0
    with contextlib.suppress(OSError):
        before = time.time()
        with tempfile.TemporaryFile(dir=directory) as file:  # unnamed, where the system supports that
            offset = os.fstat(file.fileno()).st_mtime - before
    if abs(offset) < 1.0:
        offset = 0.0  # within the duration of the call and the resolution of file times
    _offsets[directory] = (time.monotonic(), offset)
    return offset


def temporary_name(directory: Path, name: str, kind: str) -> Path:
    """Returns a hidden path in ``directory`` for this process to write to; it ends in the process's mark."""
    return directory / f".{name}.{kind}.{Process.this().mark}"


def owner(path: Path) -> Process | None:
    """Returns the process whose `temporary_name` is ``path``; None if it is not such a name."""
    name = path.name
    return Process.of_mark(name.rsplit(".", 1)[1]) if name.startswith(".") and "." in name[1:] else None


def remove_abandoned_files(directory: Path, root: Path | None = None) -> None:
    """Removes half-written files that dead processes of this user left in ``directory``.

    Files of a process that cannot be queried are kept for a day: it may be at work on another host. ``root`` is the
    directory that the user named, if ``directory`` is below it: no link in it may lead outside.
    """
    if root is not None:
        check_inside(directory, root)
    user = os.geteuid() if hasattr(os, "geteuid") else None
    with contextlib.suppress(OSError):
        for entry in [entry for entry in entries(directory) if entry.name.startswith(".")]:
            path = Path(entry.path)
            process = owner(path)
            if process is None:
                continue
            with contextlib.suppress(OSError):
                if process.is_alive(silence(path), ABANDONED):
                    continue
                if user not in (None, entry.stat(follow_symlinks=False).st_uid):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def remove_abandoned_files_once(directory: Path) -> None:
    """Calls `remove_abandoned_files` for ``directory``, once per process."""
    _removed_once(os.getpid(), os.path.abspath(directory))


@functools.lru_cache(maxsize=4096)
def _removed_once(process: int, directory: str) -> None:
    remove_abandoned_files(Path(directory))


def temporary_directory(kind: str) -> tempfile.TemporaryDirectory[str]:
    """Returns a new directory for temporary files that only this user can read; use it in a ``with`` statement.

    Its name ends in the process's mark, so that the next process cleans up after a killed one.
    """
    remove_abandoned_files_once(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(
        prefix=f".kymograph-{kind}.", suffix=f".{Process.this().mark}", ignore_cleanup_errors=True
    )
