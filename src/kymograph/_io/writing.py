"""Our own files: written atomically, checked when read, and changed by one process at a time."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._io.documents import parse_json
from kymograph._io.files import MAX_DOCUMENT, AnyPath, check_inside, check_replaceable, read_bytes
from kymograph._io.processes import Process, remove_abandoned_files_once, silence, temporary_name

SCHEMA = 1
"""The layout version of every file that is written; a higher number means a newer version of kymograph wrote it."""
FOREIGN_LOCK_KEEPS = 2.0
"""Seconds to wait for something that has the name of a lock to go away by itself."""
_numbers = itertools.count()


def plain(value: Any) -> Any:
    """Returns ``value`` in strict JSON types: NaN becomes null (missing), infinities become strings.

    Raises if two keys of a dictionary are the same string, e.g. 1 and "1": one of their values would be lost.
    """
    if isinstance(value, Mapping):
        content = {str(key): plain(item) for key, item in value.items()}
        if len(content) < len(value):
            twice = next(key for key, count in Counter(map(str, value)).items() if count > 1)
            raise KymographError(f"two keys are both written as {twice!r}; rename one")
        return content
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()  # file names can contain lone surrogates
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
    return value


@contextlib.contextmanager
def written_atomically(path: Path, *, readable: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file that becomes ``path`` by rename when the block ends: ``path`` is either unchanged or complete.

    ``readable``: whether the block may also read what it has written. What is not a file is not replaced.
    """
    check_replaceable(path)
    temporary = temporary_name(path.parent, path.name[:100], str(next(_numbers)))
    remove_abandoned_files_once(path.parent)
    try:
        try:
            with open(temporary, "x+b" if readable else "xb") as file:
                yield file
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise KymographError(f"cannot write {path}: {error.strerror}; choose another path") from None


def write_atomically(path: Path, content: bytes, durably: bool = False) -> None:
    """Writes ``content`` to ``path`` atomically; ``durably``: whether to wait until it is on the disk."""
    with written_atomically(path) as file:
        file.write(content)
        if durably:
            file.flush()
            os.fsync(file.fileno())


def make_directory(path: Path, root: Path | None = None) -> None:
    """Creates ``path`` and its parents; raises a KymographError if that fails.

    ``root`` is the directory that the user named, if ``path`` is below it: no link in it may lead outside.
    """
    if root is not None:
        check_inside(path, root)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KymographError(f"cannot create {path}: {error.strerror}; choose another directory") from None
    except ValueError:  # a null byte
        raise KymographError(f"{str(path)!r} is not a valid directory name; choose another") from None
    remove_abandoned_files_once(path)


def read_versioned_json(path: AnyPath, recorded: Mapping[str, Any] | None = None, remedy: str = "") -> dict[str, Any]:
    """Reads a JSON object that kymograph wrote, checking its schema number and, if ``recorded``, size and checksum.

    ``remedy`` is the advice for a damaged file; default: delete the run that the file belongs to.
    """
    advice = remedy or f"delete {os.path.dirname(path)} to compute the run again"
    content = read_bytes(path, MAX_DOCUMENT, follow=False, recorded=recorded, remedy=advice)
    try:
        value = parse_json(content)
    except ValueError as error:
        reason = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
        raise KymographError(f"{path} is cut off or not JSON{reason}; {advice}") from None
    if not isinstance(value, dict) or type(value.get("schema")) is not int:
        raise KymographError(f"{path} carries no schema number, so it is not a kymograph record")
    check_schema(value["schema"], path)
    return value


def check_schema(schema: int, path: AnyPath) -> None:
    """Raises if ``path`` was written by a newer version of kymograph."""
    if schema > SCHEMA:
        raise KymographError(
            f"{path} has schema {schema}, newer than the {SCHEMA} this version reads; upgrade kymograph"
        )


@contextlib.contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Holds a lock that lets one process at a time, on any host, change a file in ``directory``.

    The lock is a symbolic link that names its owner: creating one is atomic even on network file systems, where
    advisory locks may do nothing. A lock whose owner is gone is removed. Raises if something else has its name.
    """
    lock, mark = directory / ".lock", Process.this().mark
    foreign_since: float | None = None
    while True:
        try:
            os.symlink(mark, lock)
        except FileExistsError:
            if not _is_foreign(lock):
                foreign_since = None
                _remove_stale_lock(lock)
            elif foreign_since is None:
                foreign_since = time.monotonic()
            elif time.monotonic() - foreign_since > FOREIGN_LOCK_KEEPS:
                raise KymographError(
                    f"{lock} is in the way of a lock, and kymograph did not make it; remove it, and try again"
                ) from None
            time.sleep(0.01)
        except OSError:  # no symbolic links on this file system: go on without a lock
            yield
            return
        else:
            break
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.readlink(lock) == mark:  # another host takes over a lock that it believes to be abandoned
                lock.unlink()


def living_owner(lock: Path) -> Process | None:
    """Returns the process that holds a lock; None if there is no lock, or if its owner is gone."""
    with contextlib.suppress(OSError):
        owner = Process.of_mark(os.readlink(lock))
        return owner if owner is not None and owner.is_alive(silence(lock)) else None
    return None


def _is_foreign(lock: Path) -> bool:
    """Returns whether something other than a lock of a process has its name, so that nobody would ever remove it."""
    try:
        return Process.of_mark(os.readlink(lock)) is None
    except FileNotFoundError:
        return False  # released meanwhile
    except OSError:
        return True  # not a link


def _remove_stale_lock(lock: Path) -> None:
    """Removes a lock whose owner is gone, by rename, so that only one of several competing processes succeeds."""
    with contextlib.suppress(OSError):
        holder = os.readlink(lock)
        owner = Process.of_mark(holder)
        if owner is None or owner.is_alive(silence(lock)):
            return
        aside = temporary_name(lock.parent, "lock", str(next(_numbers)))
        os.rename(lock, aside)
        taken = os.readlink(aside)
        aside.unlink()
        if taken != holder:  # another process was faster, and this is its successor's lock
            os.symlink(taken, lock)
