"""Which process wrote a file, and whether that process is still there, on whatever host of a shared file system.

A number alone does not name a process: another host, or another container on this one, has the same number, and so
will a later process. A process is named by its host, its process table, its number and when it was started. A table
can be asked only from where it is in use; of a process in any other one, nothing but the age of its files can tell.
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

from kymograph.foreign.files import entries

SILENCE = 60.0
"""Seconds without a sign of life after which a process that cannot be asked counts as gone."""
ABANDONED = 24 * 3600.0
"""Seconds after which what such a process left half-written may be removed; nobody needs the space in a hurry."""
_UNKNOWN = "x"
_CLOCK_KEEPS = 60.0
_MARK = re.compile(r"([A-Za-z0-9_-]+)-([0-9a-f]{8})-([0-9]+)-([0-9]+|x)")


@dataclass(frozen=True)
class Process:
    """A process: its host, the process table it is listed in, its number there, and when it was started."""

    host: str
    table: str
    """Eight hex digits of the boot and the PID namespace: containers on one host have tables of their own."""
    pid: int
    born: str
    """When it was started, as Linux counts it; ``x`` where the system does not say."""

    @staticmethod
    def this() -> Process:
        """Returns the process that asks."""
        return _process(os.getpid())

    @property
    def mark(self) -> str:
        """What the names of its files end in; no other process has the same."""
        return f"{self.host}-{self.table}-{self.pid}-{self.born}"

    @staticmethod
    def of_mark(text: str) -> Process | None:
        """Returns the process that ``text`` is the mark of; None if it is none."""
        found = _MARK.fullmatch(text)
        return None if found is None else Process(found[1], found[2], int(found[3]), found[4])

    def is_alive(self, silent: float, patience: float = SILENCE) -> bool:
        """Says whether the process is still there; one that cannot be asked is, until it is ``silent`` too long."""
        if (self.host, self.table) != (_host(), _table()):
            return silent < patience
        return in_table(self.pid) and (self.born == _UNKNOWN or born(self.pid) == self.born)


def in_table(pid: int) -> bool:
    """Says whether this host's process table lists a process of this number."""
    if pid < 1:
        return False  # 0 and below would ask after process groups
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is there, and belongs to somebody else
    return True


def born(pid: int) -> str | None:
    """Returns when process ``pid`` was started, as Linux counts it; None if it has ended or the system does not say."""
    try:
        # The name, which may hold anything, stands in brackets; the state follows, and the start 19 fields later.
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None


def silence(path: Path, now: float | None = None) -> float:
    """Returns the seconds since ``path`` was written, by the file system's own clock: hosts disagree about the time.

    ``now`` is the time on this host's clock; default: what it says. Raises OSError if there is no such file.
    """
    written = path.lstat().st_mtime
    here = time.time() if now is None else now
    return here + clock_offset(path.parent) - written


_offsets: dict[Path, tuple[float, float]] = {}


def clock_offset(directory: Path) -> float:
    """Returns by how many seconds the clock of ``directory``'s file system is ahead of this host's; kept for a minute.

    Where nothing may be written the clocks are taken to agree.
    """
    known = _offsets.get(directory)
    if known is not None and abs(time.monotonic() - known[0]) < _CLOCK_KEEPS:
        return known[1]
    offset = 0.0
    with contextlib.suppress(OSError):
        before = time.time()
        with tempfile.TemporaryFile(dir=directory) as file:  # it has no name, where the system can do that
            offset = os.fstat(file.fileno()).st_mtime - before
    if abs(offset) < 1.0:
        offset = 0.0  # what the call took, and how coarsely files are dated
    _offsets[directory] = (time.monotonic(), offset)
    return offset


def temporary_name(directory: Path, name: str, kind: str) -> Path:
    """Returns a hidden name for what this process is about to put into ``directory``; it ends in our mark."""
    return directory / f".{name}.{kind}.{Process.this().mark}"


def owner(path: Path) -> Process | None:
    """Returns the process that `temporary_name` named ``path`` for; None if it is no such name."""
    name = path.name
    return Process.of_mark(name.rsplit(".", 1)[1]) if name.startswith(".") and "." in name[1:] else None


def sweep_up(directory: Path) -> None:
    """Removes what processes of this user that are gone left half-written in ``directory``.

    Of a process that cannot be asked, only what is a day old: it may be at work on another host.
    """
    mine = os.geteuid() if hasattr(os, "geteuid") else None
    with contextlib.suppress(OSError):
        for entry in [entry for entry in entries(directory) if entry.name.startswith(".")]:
            path = Path(entry.path)
            with contextlib.suppress(OSError):
                if not is_abandoned(path) or mine not in (None, entry.stat(follow_symlinks=False).st_uid):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def sweep_once(directory: Path) -> None:
    """Sweeps ``directory`` up the first time that this process asks for it."""
    _swept(os.getpid(), os.path.abspath(directory))


@functools.lru_cache(maxsize=4096)
def _swept(process: int, directory: str) -> None:
    sweep_up(Path(directory))


def temporary_directory(kind: str) -> tempfile.TemporaryDirectory[str]:
    """Returns a new directory for temporary files that only this user can read; use it in a ``with`` statement.

    Its name ends in our mark, so that what a killed process left is swept up by the next one.
    """
    sweep_once(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(
        prefix=f".kymograph-{kind}.", suffix=f".{Process.this().mark}", ignore_cleanup_errors=True
    )


def is_abandoned(path: Path) -> bool:
    """Says whether ``path`` is half-written, and by a process that will not finish it."""
    process = owner(path)
    if process is not None:
        return not process.is_alive(silence(path), ABANDONED)
    # Names from before there were marks end in a bare number, and nothing says of which host.
    return bool(re.fullmatch(r"\..*\.(new|old)\.[0-9]+", path.name)) and silence(path) > ABANDONED


@functools.cache
def _process(pid: int) -> Process:
    return Process(_host(), _table(), pid, born(pid) or _UNKNOWN)  # by number, since a forked process is another one


@functools.cache
def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", platform.node())[:40] or "host"


@functools.cache
def _table() -> str:
    """Returns what distinguishes this process table from that of another boot, host or container."""
    parts = [platform.node()]
    for read in (lambda: Path("/proc/sys/kernel/random/boot_id").read_text(), lambda: os.readlink("/proc/self/ns/pid")):
        with contextlib.suppress(OSError):
            parts.append(read().strip())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
