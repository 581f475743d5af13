"""One run's directory: ``config.json``, ``arrays.safetensors``, ``summary.json`` and ``status.json``.

The directory is written under a hidden name and renamed when it is whole, so that a kill leaves either the record or
none, and two processes that compute the same run cannot mix theirs. A run is finished only if ``status.json`` says so;
that file holds the size and SHA-256 of every other, so that a cut-off or edited record is noticed and named.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.files import SCHEMA, AnyPath, check_schema, make_directory, plain, read_bytes, read_json
from kymograph.runs.processes import temporary_name
from kymograph.runs.spec import RunSpec

CONFIG, ARRAYS, SUMMARY, STATUS = "config.json", "arrays.safetensors", "summary.json", "status.json"
CHECKPOINT, TRACEBACK = "checkpoint.safetensors", "traceback.txt"


@dataclass(frozen=True)
class RunSeries:
    """One measured quantity of one run: ``value[i]`` was taken at ``step[i]``; a second axis runs over ``sites``."""

    step: np.ndarray  # (steps,)
    value: np.ndarray  # (steps,) or (steps, sites)
    sites: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.step),) if self.sites is None else (len(self.step), len(self.sites))
        if self.value.shape != expected:
            raise KymographError(f"a series of shape {self.value.shape} does not fit its labels {expected}")


@dataclass(frozen=True)
class RunResult:
    """What computing a run gives: its series by name and its summary, one number (or None: missing) per key."""

    series: Mapping[str, RunSeries]
    summary: Mapping[str, float | int | str | bool | None]
    checkpoint: bytes | None = None
    """The trained network as safetensors, if the study keeps it."""
    notes: tuple[str, ...] = ()
    """What a reader of the run should know, e.g. where its random numbers came from."""


PackedRecord = Mapping[str, bytes]
"""The files of a run by name, ready to be written."""


@dataclass(frozen=True)
class RunStatus:
    """How a run ended: ``finished``, or ``failed`` with the reason."""

    status: str
    reason: str | None = None
    seconds: float | None = None
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def write_record(root: Path, spec: RunSpec, result: RunResult, provenance: Mapping[str, Any], seconds: float) -> None:
    """Stores a finished run below ``root``, in place of what was there."""
    store_record(root, spec, pack_record(spec, result, provenance), seconds)


def pack_record(spec: RunSpec, result: RunResult, provenance: Mapping[str, Any]) -> PackedRecord:
    """Returns the files of a finished run; raises if the result holds what cannot be stored."""
    facts = {**provenance, **({"notes": list(result.notes)} if result.notes else {})}
    contents = {
        CONFIG: _json_bytes({"schema": SCHEMA, "id": spec.id, **spec.identity, "provenance": facts}),
        ARRAYS: _pack(result.series),
        SUMMARY: _json_bytes({"schema": SCHEMA, "summary": plain(result.summary)}),
    }
    if result.checkpoint is not None:
        contents[CHECKPOINT] = result.checkpoint
    return contents


def store_record(root: Path, spec: RunSpec, record: PackedRecord, seconds: float) -> None:
    """Writes the files of a finished run below ``root``, in place of what was there."""
    _write(root, spec, record, RunStatus("finished", seconds=round(seconds, 3)))


def write_failure(
    root: Path, spec: RunSpec, reason: str, provenance: Mapping[str, Any], traceback: str | None = None
) -> None:
    """Stores that a run failed, why, and where in the code; running again tries it again. A finished run stays."""
    if is_finished(root, spec):
        return
    contents = {CONFIG: _json_bytes({"schema": SCHEMA, "id": spec.id, **spec.identity, "provenance": provenance})}
    if traceback is not None:
        contents[TRACEBACK] = traceback.encode("utf-8", "replace")
    _write(root, spec, contents, RunStatus("failed", reason=reason))


def is_finished(root: Path, spec: RunSpec) -> bool:
    """Says whether the run is stored whole; raises if its record is damaged or newer than this program."""
    directory = f"{root}/{spec.directory}"
    if not os.path.exists(f"{directory}/{STATUS}"):
        return False
    status = read_status(directory)
    if status.status != "finished":
        return False
    check_sizes(directory, status)
    return True


def check_sizes(directory: AnyPath, status: RunStatus) -> None:
    """Raises unless the files that a finished run must have are as long as its status says."""
    for name in (CONFIG, ARRAYS, SUMMARY):
        _check_size(f"{directory}/{name}", status.files.get(name, {}))


def read_status(directory: AnyPath) -> RunStatus:
    """Reads how the run in ``directory`` ended."""
    path = f"{directory}/{STATUS}"
    content = read_json(path)
    status = content.get("status")
    files = content.get("files", {})
    if status not in ("finished", "failed") or not isinstance(files, dict):
        raise KymographError(f"{path} is not a status file; delete {directory} to compute the run again")
    if not files.keys() <= _FILES or not all(isinstance(facts, dict) for facts in files.values()):
        raise KymographError(f"{path} names foreign files; delete {directory} to compute the run again")
    return RunStatus(status, content.get("reason"), content.get("seconds"), files)


def read_arrays(path: AnyPath, facts: Mapping[str, Any] | None = None) -> dict[str, RunSeries]:
    """Reads every series of a run from its ``arrays.safetensors``."""
    return unpack_arrays(read_bytes(path, facts, limit=None), path)


def unpack_arrays(content: bytes, path: AnyPath) -> dict[str, RunSeries]:
    """Returns every series in the bytes of an ``arrays.safetensors``; ``path`` is named if they are damaged.

    The format is eight bytes that say how long the header is, the header as JSON, and the numbers of one array after
    those of another. They are not copied: the arrays cannot be written to.
    """
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start].decode())
        layout = json.loads(header["__metadata__"]["kymograph"])
        check_schema(layout["schema"], path)

        def array(name: str) -> np.ndarray:
            entry = header[name]
            first, last = entry["data_offsets"]
            dtype = _DTYPES[entry["dtype"]]
            if not 0 <= first <= last <= len(content) - start:
                raise ValueError("beyond the end")
            count = (last - first) // dtype.itemsize
            return np.frombuffer(content, dtype, count, start + first).reshape(entry["shape"])

        steps = {grid: array(f"step/{grid}") for grid in {entry["grid"] for entry in layout["series"].values()}}
        return {
            name: RunSeries(
                step=steps[entry["grid"]],
                value=array(f"value/{name}"),
                sites=None if entry["sites"] is None else tuple(entry["sites"]),
            )
            for name, entry in layout["series"].items()
        }
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        run = os.path.dirname(path)
        raise KymographError(f"{path} is cut off or damaged; delete {run} to compute the run again") from None


_FILES = {CONFIG, ARRAYS, SUMMARY, CHECKPOINT, TRACEBACK}
_DTYPES: Mapping[str, np.dtype] = {
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}


def _pack(series: Mapping[str, RunSeries]) -> bytes:
    """Returns the series as safetensors bytes; series taken at the same steps share one array of steps."""
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    grids: dict[bytes, str] = {}
    layout: dict[str, Any] = {}
    for name, entry in series.items():
        if entry.value.dtype not in _DTYPES.values():
            raise KymographError(f"the series {name!r} has numbers of type {entry.value.dtype}, which are not stored")
        step = np.ascontiguousarray(entry.step, dtype=np.int32)
        grid = grids.setdefault(step.tobytes(), str(len(grids)))
        arrays[f"step/{grid}"] = step
        arrays[f"value/{name}"] = np.ascontiguousarray(entry.value)
        layout[name] = {"grid": grid, "sites": None if entry.sites is None else list(entry.sites)}
    return save(arrays, metadata={"kymograph": json.dumps({"schema": SCHEMA, "series": layout}, sort_keys=True)})


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _write(root: Path, spec: RunSpec, contents: Mapping[str, bytes], status: RunStatus) -> None:
    """Writes the files under a hidden name, then puts the directory in its place by rename."""
    directory = root / spec.directory
    make_directory(directory.parent)
    files = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }
    facts = {
        "schema": SCHEMA,
        "id": spec.id,
        "status": status.status,
        "reason": status.reason,
        "seconds": status.seconds,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "files": files,
    }
    fresh, old = (temporary_name(directory.parent, spec.id, kind) for kind in ("new", "old"))
    try:
        shutil.rmtree(fresh, ignore_errors=True)  # an earlier try of ours that was interrupted
        fresh.mkdir()
        for name, content in {**contents, STATUS: _json_bytes(facts)}.items():
            (fresh / name).write_bytes(content)
        if directory.exists():
            os.rename(directory, old)
        os.rename(fresh, directory)
    except OSError as error:
        if is_finished(root, spec):
            return  # another process stored the same run first
        raise KymographError(f"cannot write {directory}: {error.strerror}; choose another directory") from None
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _check_size(path: str, facts: Mapping[str, Any]) -> None:
    run = os.path.dirname(path)
    try:
        size = os.stat(path).st_size
    except OSError:
        raise KymographError(f"{path} is missing from a finished run; delete {run} to compute it again") from None
    if size != facts.get("bytes"):
        raise KymographError(f"{path} is cut off or edited; delete {run} to compute the run again")
