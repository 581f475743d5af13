"""Which runs were ever planned: those listed by the sweeps in the log.

Every sweep is logged before its first run starts, so that a planned seed that is missing can be distinguished from one
that was never planned. Directories that predate the log have a ``STUDY/plan.json`` instead, and some have both: the
plan is then the union. Such files are no longer written, because keeping them in step with the log took a lock that not
every shared file system supports.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.foreign.documents import parse_json
from kymograph.foreign.files import MAX_TABLE, matching, read_bytes, real_path
from kymograph.runs import log
from kymograph.runs.files import check_schema
from kymograph.runs.history import History
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec, slug

PLAN = "plan.json"


def read_plan(root: Path) -> list[RunSpec]:
    """Returns every run ever planned below ``root``, an output directory or a study's own."""
    return planned_runs(root, History(log_of(root)))


def planned_runs(root: Path, history: History) -> list[RunSpec]:
    """Returns every run ever planned below ``root``: those in plan files, then those in the log."""
    listed = [run for path in matching(root, PLAN, f"*/{PLAN}") for run in read_plan_file(path)]
    own = None if is_output(root) else real_path(root).name
    logged = (
        history.planned if own is None else {i: run for i, run in history.planned.items() if slug(run.study) == own}
    )
    return list(({run.id: run for run in listed} | logged).values()) if listed else list(logged.values())


def is_output(root: Path) -> bool:
    """Returns whether ``root`` is an output directory, not a study's own directory inside one that has a log."""
    return (root / log.DIRECTORY).is_dir() or not (real_path(root).parent / log.DIRECTORY).is_dir()


def log_of(root: Path) -> Log:
    """Returns the log that covers ``root``; for a study's own directory, the one next to it."""
    return Log.read(root if is_output(root) else real_path(root).parent)


def read_plan_file(path: Path) -> list[RunSpec]:
    """Returns the runs of one plan file, in the order they were planned; raises if it is damaged, edited or newer."""
    try:
        content = parse_json(read_bytes(path, MAX_TABLE, follow=False))
        schema, entries = content["schema"], content["runs"]
        if not isinstance(schema, int):
            raise TypeError("schema")
        check_schema(schema, path)
        return [_entry(entry) for entry in entries]
    except (ValueError, KeyError, TypeError):
        raise KymographError(f"{path} is cut off or edited; {_remedy(path)}") from None


def _remedy(path: Path) -> str:
    """Returns what to do about a damaged plan; deleting it would lose runs that only it lists."""
    if (real_path(path).parent.parent / log.DIRECTORY).is_dir():
        return "restore it from a copy, or rename it: the log lists what was planned since it began"
    return "restore it from a copy, since it is the only list of what was planned"


def _entry(entry: Mapping[str, Any]) -> RunSpec:
    """Returns one entry; raises ValueError unless its id is the hash of the rest."""
    try:
        run = RunSpec.from_identity({**entry, "config": dict(entry["config"])})
    except KymographError as error:
        raise ValueError(str(error)) from None
    if type(run.seed) is not int or run.id != entry["id"]:
        raise ValueError("its id does not match the run")
    return run
