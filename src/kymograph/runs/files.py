"""Files on disk: written whole or not at all, read with their checksums, changed by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError

SCHEMA = 1
"""The layout of every file of ours; a file with a higher number was written by a newer program."""
_MAX_JSON_BYTES = 64 * 2**20


def plain(value: Any) -> Any:
    """Returns ``value`` as strict JSON can hold it: NaN is null (missing), infinities are named strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
    return value


def write_atomically(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` by rename, so that the file is either as it was or whole."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise KymographError(f"cannot write {path}: {error.strerror}; choose another place") from None


def make_directory(path: Path) -> None:
    """Creates ``path`` and its parents, or says in one sentence why that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KymographError(f"cannot create {path}: {error.strerror}; choose another directory") from None


def read_json(path: Path, facts: Mapping[str, Any] | None = None, remedy: str = "") -> dict[str, Any]:
    """Reads a JSON object of ours, checking its checksum where ``facts`` gives one, and its schema number.

    ``remedy`` is what to do about a damaged file; default: delete the run that the file belongs to.
    """
    content = read_bytes(path, facts)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        advice = remedy or f"delete {path.parent} to compute the run again"
        raise KymographError(f"{path} is cut off or not JSON; {advice}") from None
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise KymographError(f"{path} carries no schema number, so it is not a kymograph record")
    check_schema(value["schema"], path)
    return value


def check_schema(schema: int, path: Path) -> None:
    """Raises if ``path`` was written by a newer program than this one."""
    if schema > SCHEMA:
        raise KymographError(
            f"{path} has schema {schema}, newer than the {SCHEMA} this version reads; upgrade kymograph"
        )


def read_bytes(path: Path, facts: Mapping[str, Any] | None, limit: int | None = _MAX_JSON_BYTES) -> bytes:
    """Reads a file of at most ``limit`` bytes, checking its checksum where ``facts`` gives one."""
    try:
        if limit is not None and path.stat().st_size > limit:
            raise KymographError(f"{path} is larger than any record of ours; it was not read")
        content = path.read_bytes()
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    if facts is not None and hashlib.sha256(content).hexdigest() != facts.get("sha256"):
        raise KymographError(f"{path} was cut off or edited after the run; delete {path.parent} to compute it again")
    return content


@contextlib.contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Lets one process at a time change what a directory lists, so that two sweeps started together both stay."""
    try:
        import fcntl
    except ImportError:  # Windows: two sweeps started in the same instant are left to luck there
        yield
        return
    handle = os.open(directory, os.O_RDONLY)  # the directory itself is the lock: it leaves no file behind
    try:
        with contextlib.suppress(OSError):  # some network file systems know no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
