"""One run's directory: ``config.json``, ``arrays.safetensors``, ``summary.json`` and ``status.json``.

The directory is written under a hidden name and renamed when complete, so that a kill leaves either a whole record or
none, and two processes that compute the same run cannot mix their files. A run is finished only if ``status.json`` says
so. That file holds the size and SHA-256 of every other file, so that a truncated or edited record is detected.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.foreign.files import MAX_TENSORS
from kymograph.runs.files import SCHEMA, make_directory, plain
from kymograph.runs.processes import temporary_name
from kymograph.runs.spec import RunSpec
from kymograph.runs.typed_record import ARRAYS as ARRAYS
from kymograph.runs.typed_record import CHECKPOINT as CHECKPOINT
from kymograph.runs.typed_record import CONFIG as CONFIG
from kymograph.runs.typed_record import DTYPES, RunStatus, check_sizes, read_status
from kymograph.runs.typed_record import STATUS as STATUS
from kymograph.runs.typed_record import SUMMARY as SUMMARY
from kymograph.runs.typed_record import TRACEBACK as TRACEBACK
from kymograph.runs.typed_record import RunSeries as RunSeries


@dataclass(frozen=True)
class RunResult:
    """The result of a run: its series by name, and its summary with one number (or None: missing) per key.

    >>> RunResult({"loss": RunSeries(step, loss)}, {"final_loss": loss[-1], "steps_to_half": None})
    """

    series: Mapping[str, RunSeries]
    summary: Mapping[str, float | int | str | bool | None]
    checkpoint: bytes | None = None
    """The trained network as safetensors, if the study keeps it."""
    notes: tuple[str, ...] = ()
    """What a reader of the run should know, e.g. where its random numbers came from."""


PackedRecord = Mapping[str, bytes]
"""The files of a run by name, ready to be written."""


def write_record(root: Path, spec: RunSpec, result: RunResult, provenance: Mapping[str, Any], seconds: float) -> None:
    """Stores a finished run below ``root``, replacing any earlier record."""
    store_record(root, spec, pack_record(spec, result, provenance), seconds)


def pack_record(spec: RunSpec, result: RunResult, provenance: Mapping[str, Any]) -> PackedRecord:
    """Returns the files of a finished run; raises if the result cannot be stored."""
    facts = {**provenance, **({"notes": list(result.notes)} if result.notes else {})}
    contents = {
        CONFIG: _json_bytes({"schema": SCHEMA, "id": spec.id, **spec.identity, "provenance": plain(facts)}),
        ARRAYS: _pack(result.series),
        SUMMARY: _json_bytes({"schema": SCHEMA, "summary": plain(result.summary)}),
    }
    if result.checkpoint is not None:
        contents[CHECKPOINT] = result.checkpoint
    for name, content in contents.items():
        if len(content) > MAX_TENSORS:  # readers reject larger files
            raise KymographError(
                f"the {name} of a run would have {len(content):,} bytes, more than the limit of {MAX_TENSORS:,}; "
                "log less often, or fewer quantities"
            )
    return contents


def store_record(root: Path, spec: RunSpec, record: PackedRecord, seconds: float) -> None:
    """Writes the files of a finished run below ``root``, replacing any earlier record."""
    _write(root, spec, record, RunStatus("finished", seconds=round(seconds, 3)))


def write_failure(
    root: Path, spec: RunSpec, reason: str, provenance: Mapping[str, Any], traceback: str | None = None
) -> None:
    """Records that a run failed, with reason and traceback, unless it is finished; the next sweep tries it again."""
    if is_finished(root, spec):
        return
    contents = {
        CONFIG: _json_bytes({"schema": SCHEMA, "id": spec.id, **spec.identity, "provenance": plain(provenance)})
    }
    if traceback is not None:
        contents[TRACEBACK] = traceback.encode("utf-8", "replace")
    _write(root, spec, contents, RunStatus("failed", reason=plain(reason)))


def is_finished(root: Path, spec: RunSpec) -> bool:
    """Returns whether the run is stored completely; raises if its record is damaged or from a newer version."""
    directory = f"{root}/{spec.directory}"
    if not os.path.exists(f"{directory}/{STATUS}"):
        return False
    status = read_status(directory)
    if status.status != "finished":
        return False
    check_sizes(directory, status)
    return True


def _pack(series: Mapping[str, RunSeries]) -> bytes:
    """Returns the series as safetensors bytes; series measured at the same steps share one array of steps."""
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    grids: dict[bytes, str] = {}
    layout: dict[str, Any] = {}
    for name, entry in series.items():
        if entry.value.dtype not in DTYPES.values():
            raise KymographError(f"the series {name!r} has values of type {entry.value.dtype}, which cannot be stored")
        step = np.ascontiguousarray(entry.step, dtype=np.int32)
        grid = grids.setdefault(step.tobytes(), str(len(grids)))
        arrays[f"step/{grid}"] = step
        arrays[f"value/{name}"] = np.ascontiguousarray(entry.value)
        layout[name] = {"grid": grid, "sites": None if entry.sites is None else list(entry.sites)}
    return save(arrays, metadata={"kymograph": json.dumps({"schema": SCHEMA, "series": layout}, sort_keys=True)})


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _write(root: Path, spec: RunSpec, contents: Mapping[str, bytes], status: RunStatus) -> None:
    """Writes the files under a hidden name, then renames the directory into place."""
    directory = root / spec.directory
    make_directory(directory.parent, root)
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
        shutil.rmtree(fresh, ignore_errors=True)  # an earlier attempt of this process that was interrupted
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
