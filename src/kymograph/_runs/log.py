"""The log of a directory of runs: what was registered, planned, abandoned and declared, and in which order.

``OUT/log/`` holds one append-only file (a segment) per writing process, with one JSON entry per line. Every entry names
its parents, the heads of the log when it was written, and its hash covers them. So the entries of many processes and
hosts form one graph without a lock, and none can be changed without changing all that follow. Order in the graph is
evidence of order in time; clock times are only informative.

A run stores the heads of the log when it starts. These and their ancestors came before the run, and no other entry did,
wherever the files have been since.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import json
import os
import platform
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
from kymograph._io.files import MAX_TABLE, matching, read_bytes
from kymograph._io.processes import Process
from kymograph._io.writing import SCHEMA, make_directory, plain, write_atomically
from kymograph._runs.spec import canonical_json
from kymograph._wording import counted

DIRECTORY = "log"
SHORT = 16
"""How many hex digits of a hash users are shown."""
MOST_WRONG = 100
"""How many wrong lines of a segment are read before the rest is given up."""
FEW = 5
"""How many problems of one kind are reported one by one."""
_appending = threading.Lock()


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


@dataclass(frozen=True)
class Log:
    """Every entry of a directory's log, sorted so that parents come first."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    problems: Sequence[str] = ()
    """What is wrong with it: entries that were edited, cut off, or refer to missing entries."""

    @property
    def heads(self) -> tuple[str, ...]:
        """The hashes of the entries that no other entry follows, sorted; empty if the log is empty."""
        followed = {parent for entry in self.entries.values() for parent in entry.parents}
        return tuple(sorted(set(self.entries) - followed))

    def of_kind(self, kind: str) -> list[Entry]:
        """Returns the entries of one kind, earlier ones first."""
        return [entry for entry in self.entries.values() if entry.kind == kind]

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

    @staticmethod
    def read(root: Path) -> Log:
        """Reads the log of the runs below ``root``, empty if there is none; problems are collected, not raised."""
        entries: dict[str, Entry] = {}
        problems: list[str] = []
        for path in matching(root, f"{DIRECTORY}/*.jsonl"):
            segment, wrong = _segment(path)
            entries |= {entry.hash: entry for entry in segment}
            problems += wrong
        lost = []
        for entry in entries.values():
            gone = [parent for parent in entry.parents if parent not in entries]
            if gone:
                lost.append(f"the log entry {entry.hash[:SHORT]} follows {gone[0][:SHORT]}, which is gone")
        problems += _first(lost, "entries that follow entries which are gone")
        return Log(_sorted(entries), tuple(problems))


def append(root: Path, kind: str, content: Mapping[str, Any]) -> Entry:
    """Appends an entry whose parents are the current heads of the log; returns it.

    The process's segment is replaced by a longer one in one step, so that no reader on any host sees half an entry, and
    a kill leaves none.
    """
    directory = root / DIRECTORY
    make_directory(directory, root)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    writer = f"{platform.node()}:{os.getpid()}"
    path = directory / f"{Process.this().mark}-{_process_mark(os.getpid())}.jsonl"
    with _appending:
        entry = Entry(kind, plain(dict(content)), Log.read(root).heads, now, writer)
        before = read_bytes(path, MAX_TABLE, follow=False) if path.exists() else b""
        write_atomically(path, before + entry.line(), durably=True)
    return entry


@functools.cache
def _process_mark(process: int) -> str:
    """Returns a random suffix for this process's segment, in case its mark is not unique."""
    return uuid.uuid4().hex[:8]


def _segment(path: Path) -> tuple[list[Entry], list[str]]:
    """Returns the valid entries of one segment, and a sentence about each problem in it."""
    name = f"{DIRECTORY}/{path.name}"
    try:
        content = _read(path)
    except KymographError as error:
        return [], [f"{name} is not a segment of the log ({error})"]
    entries, wrong, lines = [], [], io.BytesIO(content)  # not split: a list of 256 million empty lines takes gigabytes
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):  # a process was killed while it wrote, or the end was cut off
            wrong.append(f"{name} ends in the middle of an entry")
        elif (entry := _entry(line)) is not None:
            entries.append(entry)
        else:
            wrong.append(f"{name}, line {number} was edited or is not an entry")
        if len(wrong) == MOST_WRONG:
            break
    unread = content.count(b"\n", lines.tell())
    if unread:
        wrong.append(f"{name} has {counted(unread, 'more line')}, not read because so many are wrong")
    return entries, _first(wrong, f"problems with {name}")


def _first(problems: list[str], of: str) -> list[str]:
    """Returns a few of the problems and how many more there are."""
    more = len(problems) - FEW
    return problems if more <= 1 else [*problems[: FEW - 1], problems[-1], f"there are {more:,} more {of}"]


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_TABLE, follow=False)
    except KymographError as error:
        if not str(error).endswith(os.strerror(errno.ESTALE)):
            raise
        return read_bytes(path, MAX_TABLE, follow=False)  # its writer, on another host, has just replaced it


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
