"""One run's directory, written and read: ``config.json``, ``arrays.safetensors``, ``summary.json``, ``status.json``.

The directory is written under a hidden name and renamed when complete, so that a kill leaves either a whole record or
none, and two processes that compute the same run cannot mix their files. A run is finished only if ``status.json`` says
so. That file holds the size and SHA-256 of every other file, so that a truncated or edited record is detected.

A record can also be forged with matching checksums. It is validated here and nowhere else: values that do not have the
types that the rest of the program relies on raise a KymographError, so that readers of a directory can name the run and
leave it out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT, MAX_TENSORS, AnyPath, read_bytes
from kymograph._io.processes import temporary_name
from kymograph._io.tensors import TensorEntry, TensorHeader, tensor_header
from kymograph._io.writing import SCHEMA, check_schema, make_directory, plain, read_versioned_json
from kymograph._runs.divergence import Divergence, find_divergence
from kymograph._runs.spec import RunSpec
from kymograph._runs.steps import step_notes, stored_steps
from kymograph._runs.storable import INFINITIES, check_text, stored_summary

CONFIG, ARRAYS, SUMMARY, STATUS = "config.json", "arrays.safetensors", "summary.json", "status.json"
CHECKPOINT, TRACEBACK = "checkpoint.safetensors", "traceback.txt"
NEEDED = {"finished": (CONFIG, ARRAYS, SUMMARY), "failed": (CONFIG,)}
"""The files that a run must have, by status."""
DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
"""The dtypes in which series are stored, by their names in the file."""
_STEP_DTYPES = ("I32", "I64", "F64")
PackedRecord = Mapping[str, bytes]
"""The files of a run by name, ready to be written."""
_FILES = {CONFIG, ARRAYS, SUMMARY, CHECKPOINT, TRACEBACK}
_SHA256 = re.compile("[0-9a-f]{64}")
_SCALARS = frozenset({str, int, float, bool, type(None)})
_PROVENANCE: Mapping[str, type] = {
    "versions": dict, "hardware": dict, "notes": list, "log": list, "stack": dict, "threads": int, "device": str,
    "code": str,
}  # fmt: skip
"""The fields of a provenance that are used, with their types; all others are only shown."""


@dataclass(frozen=True)
class RunSeries:
    """One measured quantity of one run: ``value[i]`` was taken at ``step[i]``; a second axis runs over ``sites``.

    Steps are integers, or floats such as fractions of an epoch. They may repeat or decrease.

    >>> ky.RunSeries(np.arange(3), np.array([1.0, 0.5, 0.25])).value.tolist()
    [1.0, 0.5, 0.25]
    >>> ky.RunSeries(np.array([0, 50]), np.ones((2, 2)), sites=("layer 1", "layer 2")).sites
    ('layer 1', 'layer 2')
    """

    step: np.ndarray  # (steps,)
    value: np.ndarray  # (steps,) or (steps, sites)
    sites: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.step),) if self.sites is None else (len(self.step), len(self.sites))
        if self.value.shape != expected:
            raise KymographError(f"a series of shape {self.value.shape} does not fit its labels {expected}")


@dataclass(frozen=True)
class RunResult:
    """The result of a run: its series by name, and its summary with one number (or None: missing) per key.

    >>> loss = np.array([1.0, 0.5, 0.25])
    >>> series = {"loss": ky.RunSeries(np.arange(3), loss)}
    >>> result = ky.RunResult(series, {"final_loss": loss[-1], "steps_to_tenth": None})
    >>> sorted(result.summary)
    ['final_loss', 'steps_to_tenth']
    """

    series: Mapping[str, RunSeries]
    summary: Mapping[str, float | int | str | bool | None]
    checkpoint: bytes | None = None
    """The trained network as safetensors, if the study keeps it."""
    notes: tuple[str, ...] = ()
    """What a reader of the run should know, e.g. where its random numbers came from."""
    processes: Mapping[str, Any] = field(default_factory=dict)
    """How several processes have trained the run: their number, strategy and mesh; empty: one has."""


def pack_record(spec: RunSpec, result: RunResult, provenance: Mapping[str, Any]) -> PackedRecord:
    """Returns the files of a finished run; raises if the result cannot be stored and read back.

    Series whose steps repeat or decrease are noted.
    """
    arrays, summary = _pack(result.series), stored_summary(result.summary, "summary")
    notes = [*result.notes, *step_notes({name: series.step for name, series in result.series.items()})]
    for note in notes:
        if not isinstance(note, str):
            raise KymographError(f"the note {note!r} is a {type(note).__name__}; notes are strings")
    more = {name: value for name, value in (("notes", notes), ("processes", dict(result.processes))) if value}
    divergence = find_divergence(summary, lambda: result.series)
    diverged = None if divergence is None else {"step": divergence.step}
    contents = {
        CONFIG: _config_bytes(spec, {**provenance, **more}),
        ARRAYS: arrays,
        SUMMARY: _json_bytes({"schema": SCHEMA, "summary": plain(summary), "diverged": diverged}),
    }
    if result.checkpoint is not None:
        contents[CHECKPOINT] = result.checkpoint
    for name, content in contents.items():
        limit = MAX_DOCUMENT if name.endswith(".json") else MAX_TENSORS
        if len(content) > limit:  # readers reject larger files
            raise KymographError(
                f"the {name} of a run would have {len(content):,} bytes, more than the limit of {limit:,}; "
                "log less often, or fewer quantities"
            )
    return contents


def store_record(root: Path, spec: RunSpec, record: PackedRecord, seconds: float) -> None:
    """Writes the files of a finished run below ``root``, replacing any earlier record."""
    _write(root, spec, record, "finished", seconds=round(seconds, 3))


def write_failure(
    root: Path, spec: RunSpec, reason: str, provenance: Mapping[str, Any], traceback: str | None = None
) -> None:
    """Records that a run failed, with reason and traceback, unless it is finished; the next sweep tries it again."""
    if is_finished(root, spec):
        return
    contents = {CONFIG: _config_bytes(spec, provenance)}
    if traceback is not None:
        contents[TRACEBACK] = traceback.encode("utf-8", "replace")
    _write(root, spec, contents, "failed", reason=plain(reason))


def _config_bytes(spec: RunSpec, provenance: Mapping[str, Any]) -> bytes:
    return _json_bytes({"schema": SCHEMA, "id": spec.id, **spec.identity, "provenance": plain(provenance)})


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _pack(series: Mapping[str, RunSeries]) -> bytes:
    """Returns the series as safetensors bytes; series measured at the same steps share one array of steps."""
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    grids: dict[tuple[str, bytes], str] = {}
    layout: dict[str, Any] = {}
    for name, entry in series.items():
        _check_names(name, entry.sites)
        if entry.value.dtype not in DTYPES.values():
            raise KymographError(f"the series {name!r} has values of type {entry.value.dtype}, which cannot be stored")
        step = stored_steps(entry.step, name)
        grid = grids.setdefault((step.dtype.str, step.tobytes()), str(len(grids)))
        arrays[f"step/{grid}"] = step
        arrays[f"value/{name}"] = np.ascontiguousarray(entry.value)
        layout[name] = {"grid": grid, "sites": None if entry.sites is None else list(entry.sites)}
    return save(arrays, metadata={"kymograph": json.dumps({"schema": SCHEMA, "series": layout}, sort_keys=True)})


def _check_names(name: Any, sites: tuple[str, ...] | None) -> None:
    """Raises if the name of a series or of a site cannot be read back."""
    if not isinstance(name, str):
        raise KymographError(f"a series is called {name!r}; names are strings")
    check_text(name, "the name of a series")
    for site in sites or ():
        if not isinstance(site, str):
            raise KymographError(f"the series {name!r} has the site {site!r}; the names of sites are strings")
        check_text(site, f"a site of the series {name!r}")
    if sites is not None and len({*sites}) < len(sites):
        twice = next(site for site in sites if sites.count(site) > 1)
        raise KymographError(f"the series {name!r} has the site {twice!r} twice; give each site its own name")


def _write(
    root: Path,
    spec: RunSpec,
    contents: PackedRecord,
    status: str,
    reason: str | None = None,
    seconds: float | None = None,
) -> None:
    """Writes the files and the status under a hidden name, then renames the directory into place."""
    directory = root / spec.directory
    make_directory(directory.parent, root)
    ending = {
        "schema": SCHEMA,
        "id": spec.id,
        "status": status,
        "reason": reason,
        "seconds": seconds,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        },
    }
    fresh, old = (temporary_name(directory.parent, spec.id, kind) for kind in ("new", "old"))
    try:
        shutil.rmtree(fresh, ignore_errors=True)  # an earlier attempt of this process that was interrupted
        fresh.mkdir()
        for name, content in {**contents, STATUS: _json_bytes(ending)}.items():
            (fresh / name).write_bytes(content)
        if directory.exists():
            os.rename(directory, old)
        os.rename(fresh, directory)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT) and is_finished(root, spec):
            return  # another process stored the same run first
        raise KymographError(f"cannot write {directory}: {error.strerror}; choose another directory") from None
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


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


@dataclass(frozen=True)
class RunStatus:
    """How a run ended: ``finished``, or ``failed`` with the reason."""

    status: str
    reason: str | None
    seconds: float | None
    files: Mapping[str, Mapping[str, Any]]
    """The size and SHA-256 of every other file of the run."""
    written: str
    """When it was stored, in UTC."""


def read_status(directory: AnyPath) -> RunStatus:
    """Reads how the run in ``directory`` ended."""
    content = read_versioned_json(f"{directory}/{STATUS}")
    status, files, reason, seconds = (content.get(name) for name in ("status", "files", "reason", "seconds"))
    if not isinstance(status, str) or status not in NEEDED or not isinstance(files, dict):
        raise _damaged(directory, STATUS, "is not a status file")
    if not files.keys() <= _FILES or not all(map(_is_checksum, files.values())):
        raise _damaged(directory, STATUS, "names unknown files, or lacks checksums")
    missing = [name for name in NEEDED[status] if name not in files]
    if missing:
        raise _damaged(directory, STATUS, f"has no checksum of {missing[0]}")
    if not isinstance(reason, str | None) or not (seconds is None or _is_amount(seconds)):
        raise _damaged(directory, STATUS, "has a reason or a time of the wrong type")
    return RunStatus(status, reason, seconds, files, str(content.get("written", "")))


def read_file(directory: AnyPath, name: str, status: RunStatus, limit: int = MAX_TENSORS) -> bytes:
    """Reads one file of a run, checking its size and checksum; raises if the run was stored without it."""
    if name not in status.files:
        raise KymographError(f"{directory} was stored without {name}")
    path = f"{directory}/{name}"
    if not os.path.lexists(path):
        raise _damaged(directory, name, f"is missing from a {status.status} run")
    return read_bytes(path, limit, follow=False, recorded=status.files[name], remedy=_recompute(directory))


def check_sizes(directory: AnyPath, status: RunStatus, names: Collection[str] | None = None) -> None:
    """Raises unless the files ``names`` (default: all that a run's status names) exist and have the stated sizes."""
    for name in status.files if names is None else names:
        try:
            size = os.stat(f"{directory}/{name}").st_size
        except OSError:
            raise _damaged(directory, name, f"is missing from a {status.status} run") from None
        if size != status.files[name]["bytes"]:
            raise _damaged(directory, name, "is cut off or edited")


@dataclass(frozen=True)
class StoredSummary:
    """The summary of a finished run, and whether it diverged."""

    numbers: Mapping[str, Any]
    """One number, string or Boolean, or None for missing, per key."""
    divergence: Divergence | None
    states_divergence: bool
    """Whether the record says if the run diverged; earlier versions did not, so that the series must be read."""


def read_summary(directory: AnyPath, status: RunStatus) -> StoredSummary:
    """Reads the summary of a finished run."""
    content = read_versioned_json(f"{directory}/{SUMMARY}", status.files[SUMMARY])
    summary = content.get("summary")
    if not isinstance(summary, dict) or not _SCALARS.issuperset(map(type, summary.values())):
        raise _damaged(directory, SUMMARY, "does not contain one number per key")
    numbers = {
        name: INFINITIES.get(value, value) if isinstance(value, str) else value for name, value in summary.items()
    }
    try:
        return StoredSummary(numbers, Divergence.of(content.get("diverged")), "diverged" in content)
    except ValueError as error:
        raise _damaged(directory, SUMMARY, f"does not say at which step the run diverged: {error}") from None


def read_config(directory: AnyPath, status: RunStatus) -> Mapping[str, Any]:
    """Reads a run's identity and provenance; the identity is checked where it becomes a `RunSpec`."""
    content = read_versioned_json(f"{directory}/{CONFIG}", status.files[CONFIG])
    provenance = content.get("provenance")
    if not isinstance(provenance, dict):
        raise _damaged(directory, CONFIG, "has a provenance that is not an object")
    for name, kind in _PROVENANCE.items():
        if not isinstance(provenance.get(name, kind()), kind):
            raise _damaged(directory, CONFIG, f"has a provenance whose {name} is not of type {kind.__name__}")
    for name in ("notes", "log"):
        if not all(isinstance(text, str) for text in provenance.get(name, ())):
            raise _damaged(directory, CONFIG, f"has a provenance whose {name} are not strings")
    return content


def read_identity(directory: AnyPath, config: Mapping[str, Any]) -> RunSpec[Mapping[str, Any]]:
    """Returns the run that a configuration describes; raises unless it matches the stored id and directory."""
    try:
        spec = RunSpec.from_identity(config)
        run_id = spec.id
    except (KymographError, ValueError, TypeError) as error:
        raise KymographError(f"{directory}/{CONFIG}: {error}; {_recompute(directory)}") from None
    if config.get("id") != run_id or not str(directory).endswith(run_id):
        raise KymographError(f"{directory} contains a configuration that does not match its id; it was edited")
    return spec


def check_arrays(content: bytes, path: AnyPath) -> None:
    """Raises unless ``content``, the bytes of an ``arrays.safetensors``, is valid for `unpack_arrays`."""
    _layout(content, path)


def unpack_arrays(content: bytes, path: AnyPath) -> dict[str, RunSeries]:
    """Returns every series in the bytes of an ``arrays.safetensors``; ``path`` is named if they are damaged.

    The arrays are read-only views of ``content``.
    """
    header, series = _layout(content, path)
    steps = {
        grid: _array(content, header.tensors[f"step/{grid}"]) for grid in {entry["grid"] for entry in series.values()}
    }
    return {
        name: RunSeries(
            steps[entry["grid"]],
            _array(content, header.tensors[f"value/{name}"]),
            None if entry["sites"] is None else tuple(entry["sites"]),
        )
        for name, entry in series.items()
    }


def _array(content: bytes, entry: TensorEntry) -> np.ndarray:
    """Returns one array of a file of series, without copying it."""
    dtype = DTYPES[entry.dtype]
    count = (entry.last - entry.first) // dtype.itemsize
    return np.frombuffer(content, dtype, count, entry.first).reshape(entry.shape)


def _layout(content: bytes, path: AnyPath) -> tuple[TensorHeader, Mapping[str, Any]]:
    """Returns the validated header of a file of series, and the steps and sites of each series."""
    try:
        header = tensor_header(content)
        if not isinstance(header.metadata, dict) or type(header.metadata.get("schema")) is not int:
            raise ValueError("not an arrays file")
        check_schema(header.metadata["schema"], path)
        series: Mapping[str, Any] = header.metadata["series"]
        for name, entry in series.items():
            step, value = header.tensors[f"step/{entry['grid']}"], header.tensors[f"value/{name}"]
            sites = entry["sites"]
            expected = step.shape if sites is None else (*step.shape, len(sites))
            if len(step.shape) != 1 or step.dtype not in _STEP_DTYPES or value.dtype not in DTYPES:
                raise ValueError("steps or values of an unknown type")
            if step.dtype == "F64" and not np.isfinite(_array(content, step)).all():
                raise ValueError("a step that is not finite")
            if value.shape != expected or not (sites is None or _are_names(sites)):
                raise ValueError("a series that does not fit its labels")
        return header, series
    except (KeyError, ValueError, TypeError, AttributeError):
        raise KymographError(f"{path} is cut off or damaged; {_recompute(os.path.dirname(path))}") from None


def _are_names(sites: Any) -> bool:
    return isinstance(sites, list) and {str}.issuperset(map(type, sites)) and len({*sites}) == len(sites)


def _is_checksum(recorded: Any) -> bool:
    if not isinstance(recorded, dict) or type(recorded.get("bytes")) is not int:
        return False
    return isinstance(recorded.get("sha256"), str) and _SHA256.fullmatch(recorded["sha256"]) is not None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _damaged(directory: AnyPath, name: str, problem: str) -> KymographError:
    return KymographError(f"{directory}/{name} {problem}; {_recompute(directory)}")


def _recompute(directory: AnyPath) -> str:
    return f"delete {directory} to compute the run again"
