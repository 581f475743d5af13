"""The log of a directory of runs: what was registered, planned, abandoned and declared, and in which order.

``DIR/log/`` holds one append-only file (a segment) per writing process, with one JSON entry per line. Every entry names
its parents, the heads of the log when it was written, and its hash covers them. So the entries of many processes and
hosts form one graph without a lock, and none can be changed without changing all that follow. Order in the graph is
evidence of order in time; clock times are only informative.

A kill can leave an entry half-written at the end of a segment. Readers ignore what does not end with a line break, and
the next writer removes it once the process that wrote it is gone.

A run stores the heads of the log when it starts. These and their ancestors came before the run, and no other entry did,
wherever the files have been since.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import platform
import stat
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.documents import parse_json
from kymograph._io.files import MAX_TABLE, entries, read_bytes
from kymograph._io.processes import Process, silence
from kymograph._io.writing import SCHEMA, make_directory, plain
from kymograph._runs.spec import canonical_json
from kymograph._wording import counted

DIRECTORY = "log"
SHORT = 16
"""How many hex digits of a hash users are shown."""
MOST_WRONG = 100
"""How many wrong lines of a segment are read before the rest is given up."""
FEW = 5
"""How many problems of one kind are reported one by one."""
_changing = threading.RLock()
"""Held while a log is read on or appended to: threads share a process's segment."""
os.register_at_fork(after_in_child=lambda: globals().update(_changing=threading.RLock()))


@dataclass(frozen=True)
class Entry:
    """One entry of the log."""

    kind: str
    content: Mapping[str, Any]
    parents: tuple[str, ...]
    time: str
    writer: str
    """The host and process that wrote it."""

    @functools.cached_property
    def hash(self) -> str:
        """The SHA-256 of the entry, its parents included."""
        return hashlib.sha256(canonical_json(self._covered()).encode()).hexdigest()

    def _covered(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "content": self.content,
            "parents": list(self.parents),
            "time": self.time,
            "writer": self.writer,
        }

    def line(self) -> bytes:
        """Returns the entry as a line of a segment."""
        return (json.dumps({**self._covered(), "hash": self.hash}, sort_keys=True, allow_nan=False) + "\n").encode()


@dataclass
class _Segment:
    """How much of one process's file was read."""

    inode: int = 0
    size: int = -1
    """Its size when it was last read; -1: never."""
    read: int = 0
    """How many bytes of whole lines were read."""
    lines: int = 0
    wrong: list[str] = field(default_factory=list)
    """What is wrong with its lines, a sentence each."""
    failure: str = ""
    """Why it could not be read the last time; it is tried again, and nothing is cut off it."""
    given_up: bool = False
    """Whether so many lines are wrong that the rest is not read."""


class Log:
    """Every entry of a directory's log, parents first; read once, then followed as it grows.

    log = Log.read(root)
    log.append("sweep", {"study": "depth", ...})
    log.heads
    """

    def __init__(self, root: Path | None = None, entries: Iterable[Entry] = ()) -> None:
        """Makes a log of ``entries``, without reading the one of ``root``; `read` does."""
        self.root = root
        self.generation = 0
        """Raised when entries that were read before are gone, and the log was read anew."""
        self._clear()
        self._add({entry.hash: entry for entry in entries})

    def _clear(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.order: list[Entry] = []
        """The entries, those that were read later last."""
        self._of_kind: dict[str, list[Entry]] = {}
        self._heads: set[str] = set()
        self._followed: set[str] = set()
        self._segments: dict[str, _Segment] = {}
        self._successors: dict[str, tuple[int, set[str]]] = {}

    @staticmethod
    def read(root: Path) -> Log:
        """Reads the log of the runs below ``root``, empty if there is none; problems are collected, not raised."""
        log = Log(root)
        log.refresh()
        if log._lost():  # perhaps in a segment that was written after it was read, and before its successor was
            log.refresh()
        return log

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the log: entries that were edited, or refer to missing entries."""
        problems = [
            problem
            for name, segment in sorted(self._segments.items())
            for problem in _first(
                [*segment.wrong, *filter(None, [segment.failure])], f"problems with {DIRECTORY}/{name}"
            )
        ]
        return (*problems, *_first(self._lost(), "entries that follow entries which are gone"))

    def _lost(self) -> list[str]:
        lost = []
        for entry in self.order:
            gone = [parent for parent in entry.parents if parent not in self.entries]
            if gone:
                lost.append(f"the log entry {entry.hash[:SHORT]} follows {gone[0][:SHORT]}, which is gone")
        return lost

    @property
    def heads(self) -> tuple[str, ...]:
        """The hashes of the entries that no other entry follows, sorted; empty if the log is empty."""
        return tuple(sorted(self._heads))

    def of_kind(self, kind: str) -> Sequence[Entry]:
        """Returns the entries of one kind, earlier ones first."""
        return self._of_kind.get(kind, ())

    def up_to(self, heads: Iterable[str]) -> set[str]:
        """Returns ``heads`` and all their ancestors, as far as they are in this log."""
        reached: set[str] = set()
        waiting = [head for head in heads if head in self.entries]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [parent for parent in self.entries[name].parents if parent in self.entries]
        return reached

    def precedes(self, name: str, heads: Iterable[str]) -> bool:
        """Returns whether the entry ``name`` is among ``heads`` and their ancestors.

        All entries that follow ``name`` are computed once, so that asking about ten thousand runs costs one walk.
        """
        if name not in self.entries:
            return False
        count, following = self._successors.get(name, (0, {name}))
        for entry in self.order[count:]:
            if not following.isdisjoint(entry.parents):
                following.add(entry.hash)
        self._successors[name] = (len(self.order), following)
        return not following.isdisjoint(heads)

    def refresh(self) -> None:
        """Reads what was appended since the log was last read, by any process."""
        with _changing:
            self._refresh()

    def _refresh(self) -> None:
        if self.root is None:
            return
        present = _segment_files(self.root)
        for name, segment in self._segments.items():
            status = present.get(name)
            if status is None or status.st_size < segment.read or status.st_ino != segment.inode:
                self._clear()  # it was deleted or replaced: what follows is another log
                self.generation += 1
                break
        batch: dict[str, Entry] = {}
        for name, status in present.items():
            segment = self._segments.setdefault(name, _Segment(status.st_ino))
            if segment.size != status.st_size:
                segment.size = status.st_size
                batch |= {entry.hash: entry for entry in _read_on(self.root / DIRECTORY / name, segment)}
        self._add(batch)

    def _add(self, batch: Mapping[str, Entry]) -> None:
        if not self._followed.isdisjoint(batch.keys() - self.entries.keys()):
            # A successor was read first, from a segment that was written after this one was looked at.
            every = {**self.entries, **batch}
            segments, self.generation = self._segments, self.generation + 1
            self._clear()
            self._segments, batch = segments, every
        for name, entry in _sorted({name: entry for name, entry in batch.items() if name not in self.entries}).items():
            self.entries[name] = entry
            self.order.append(entry)
            self._of_kind.setdefault(entry.kind, []).append(entry)
            self._followed.update(entry.parents)
            self._heads.difference_update(entry.parents)
            if name not in self._followed:
                self._heads.add(name)

    def append(self, kind: str, content: Mapping[str, Any]) -> Entry:
        """Appends an entry whose parents are the current heads of the log to this process's segment; returns it."""
        assert self.root is not None
        directory = self.root / DIRECTORY
        make_directory(directory, self.root)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        writer = f"{platform.node()}:{os.getpid()}"
        name = f"{Process.this().mark}-{_process_mark(os.getpid())}.jsonl"
        with _changing:
            self._refresh()
            entry = Entry(kind, plain(dict(content)), self.heads, now, writer)
            self._remove_half_entries()
            segment = self._segments.setdefault(name, _Segment())
            line = entry.line()
            segment.inode = _write_at(directory / name, segment.read, line)
            segment.read += len(line)
            segment.size = segment.read
            segment.lines += 1
            self._add({entry.hash: entry})
        return entry

    def _remove_half_entries(self) -> None:
        """Cuts off what processes that are gone left half-written at the end of their segments."""
        assert self.root is not None
        for name, segment in self._segments.items():
            if segment.size <= segment.read or segment.given_up or segment.failure:
                continue
            owner, path = Process.of_mark(name.rpartition("-")[0]), self.root / DIRECTORY / name
            with contextlib.suppress(OSError, KymographError):
                if owner is not None and owner != Process.this() and not owner.is_alive(silence(path)):
                    handle = _open_at(path, segment.read)
                    os.close(handle)
                    segment.size = segment.read


def _segment_files(root: Path) -> dict[str, os.stat_result]:
    """Returns the size and identity of each segment of the log below ``root``, by name, sorted."""
    present: dict[str, os.stat_result] = {}
    try:
        for entry in entries(root / DIRECTORY):
            if entry.name.endswith(".jsonl"):
                with contextlib.suppress(FileNotFoundError):  # it was deleted since it was listed
                    present[entry.name] = entry.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:  # not an empty log: what follows would not name what came before
        raise KymographError(f"cannot read {root / DIRECTORY}: {error.strerror}; try again") from None
    except ValueError:  # a null byte
        raise KymographError(f"{str(root)!r} is not a valid file name") from None
    return present


def _write_at(path: Path, end: int, line: bytes) -> int:
    """Writes a line at the end of a segment, waits until it is on the disk, and returns the file's inode.

    ``end`` is where the last whole entry ends: what a failed write left behind it is removed.
    """
    try:
        handle = _open_at(path, end, os.O_CREAT)
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
            return os.fstat(handle).st_ino
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, end)
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise KymographError(f"cannot write {path}: {error.strerror}; choose another directory") from None


def _open_at(path: Path, end: int, flags: int = 0) -> int:
    """Opens a segment to write behind its first ``end`` bytes, and cuts half an entry off there; returns the handle.

    Raises if more than half an entry is there, or less than was read: nobody loses what another process wrote.
    """
    handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0) | flags, 0o644)
    try:
        status = os.fstat(handle)
        rest = os.pread(handle, max(0, status.st_size - end), end)
        if not stat.S_ISREG(status.st_mode) or status.st_size < end or b"\n" in rest:
            raise KymographError(f"{path} was changed by something else while it was in use; try again")
        if rest:
            os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
    except BaseException:
        os.close(handle)
        raise
    return handle


@functools.cache
def _process_mark(process: int) -> str:
    """Returns a random suffix for this process's segment, in case its mark is not unique."""
    return uuid.uuid4().hex[:8]


def _read_on(path: Path, segment: _Segment) -> list[Entry]:
    """Returns the entries of a segment that were not read before; what is wrong with it is added to ``segment``."""
    name = f"{DIRECTORY}/{path.name}"
    if segment.given_up:
        return []
    try:
        content = _read(path, segment.read)
    except KymographError as error:
        segment.failure, segment.size = f"{name} is not a segment of the log ({error})", -1
        return []
    segment.failure = ""
    fresh, lines = [], io.BytesIO(content)  # not split: a list of 256 million empty lines takes gigabytes
    for line in lines:
        if not line.endswith(b"\n"):
            break  # half an entry: it is being written, or its writer was killed
        segment.read += len(line)
        segment.lines += 1
        if (entry := _entry(line)) is not None:
            fresh.append(entry)
        else:
            segment.wrong.append(f"{name}, line {segment.lines} was edited or is not an entry")
        if len(segment.wrong) == MOST_WRONG:
            segment.given_up = True
            unread = content.count(b"\n", lines.tell())
            if unread:
                segment.wrong.append(f"{name} has {counted(unread, 'more line')}, not read because so many are wrong")
            break
    return fresh


def _first(problems: list[str], of: str) -> list[str]:
    """Returns a few of the problems and how many more there are."""
    more = len(problems) - FEW
    return problems if more <= 1 else [*problems[: FEW - 1], problems[-1], f"there are {more:,} more {of}"]


def _read(path: Path, start: int) -> bytes:
    try:
        return read_bytes(path, MAX_TABLE, follow=False, start=start)
    except KymographError as error:
        if not str(error).endswith(os.strerror(errno.ESTALE)):
            raise
        return read_bytes(path, MAX_TABLE, follow=False, start=start)  # its writer, on another host, has just written


def _entry(line: bytes) -> Entry | None:
    try:
        value = parse_json(line)
        entry = Entry(value["kind"], value["content"], tuple(value["parents"]), value["time"], value["writer"])
        typed = isinstance(entry.content, dict) and all(
            isinstance(text, str) for text in (entry.kind, entry.time, entry.writer, *entry.parents)
        )
        return entry if value["schema"] == SCHEMA and typed and entry.hash == value["hash"] else None
    except (ValueError, KeyError, TypeError):
        return None


def _sorted(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Returns the entries with parents first; concurrent ones are sorted by hash."""
    left = {name: {parent for parent in entry.parents if parent in entries} for name, entry in entries.items()}
    children: dict[str, list[str]] = {}
    for name, parents in left.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    ready = deque(sorted(name for name, parents in left.items() if not parents))
    order: dict[str, Entry] = {}
    while ready:
        name = ready.popleft()
        order[name] = entries[name]
        for child in sorted(children.get(name, ())):
            left[child].discard(name)
            if not left[child] and child not in order:
                ready.append(child)
    return order
