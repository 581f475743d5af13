"""Which runs were ever asked for: ``STUDY/plan.json``, written before the first run of a sweep starts.

A later sweep adds its runs and never unlists any, so that a planned seed that is missing can be distinguished from one
that nobody asked for. The log has what was planned as well: a sweep lists again whatever a plan has lost.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs import log
from kymograph.runs.files import SCHEMA, check_schema, make_directory, one_at_a_time, write_atomically
from kymograph.runs.history import logged_runs
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec, slug

PLAN = "plan.json"


class DamagedPlan(KymographError):
    """A plan that is cut off or was edited."""


def record_plan(root: Path, specs: Iterable[RunSpec]) -> None:
    """Adds ``specs`` to the plans of their studies below ``root``, after what the plans have lost; see `mend_plan`."""
    studies: dict[str, list[RunSpec]] = {}
    for spec in specs:
        studies.setdefault(slug(spec.study), []).append(spec)
    for name, members in studies.items():
        _complete(root, name, members)


def mend_plan(root: Path, study: str) -> None:
    """Lists again, with a note, what the plan of a study below ``root`` has lost and the log has.

    A plan that is damaged is kept under another name; raises if the log does not say what was in it.
    """
    _complete(root, slug(study), ())


def _complete(root: Path, name: str, specs: Sequence[RunSpec]) -> None:
    """Adds to the plan of the study in the directory ``name`` whatever the log has of it, and ``specs``."""
    history = Log.read(root)
    logged = [run for run in logged_runs(history) if slug(run.study) == name]
    directory = root / name
    path = directory / PLAN
    make_directory(directory)
    with one_at_a_time(directory):
        try:
            listed = {run.id: run for run in read_plan_file(path)} if path.exists() else {}
        except DamagedPlan:
            if not logged or history.problems:
                raise
            _set_aside(path)
            listed = {}
        lost = [run for run in logged if run.id not in listed]
        fresh = {run.id: run for run in (*lost, *specs) if run.id not in listed}
        if fresh:
            write_atomically(path, _pack({**listed, **fresh}))
    if lost:
        runs = "1 run" if len(lost) == 1 else f"{len(lost)} runs"
        print(f"note: {path} lacked {runs} that the log has; what was planned is listed again", file=sys.stderr)


def _set_aside(path: Path) -> None:
    """Renames a damaged plan: whatever it still says is not lost."""
    names = (path.with_name(f"{path.stem}-damaged-{number}{path.suffix}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise KymographError(f"cannot rename the damaged {path}: {error.strerror}") from None
    print(f"note: {path} was cut off or edited; it is kept as {aside.name}", file=sys.stderr)


def read_plan(root: Path) -> list[RunSpec]:
    """Returns every run ever planned below ``root``, an output directory or a study's own; none if it has no plan."""
    return [run for path in sorted([*root.glob(PLAN), *root.glob(f"*/{PLAN}")]) for run in read_plan_file(path)]


def read_plan_file(path: Path) -> list[RunSpec]:
    """Returns the runs of one plan file, in the order they were planned; raises if it is damaged, edited or newer."""
    try:
        content = json.loads(path.read_bytes())
        schema, entries = content["schema"], content["runs"]
        if not isinstance(schema, int):
            raise TypeError("schema")
        check_schema(schema, path)
        return [_entry(entry) for entry in entries]
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedPlan(f"{path} is cut off or edited; {_remedy(path)}") from None


def _remedy(path: Path) -> str:
    """Returns what to do about a damaged plan; deleting it would lose what only it says."""
    if (path.resolve().parent.parent / log.DIRECTORY).is_dir():
        return "restore it from a copy, or rename it and run the sweep's command again, which lists what the log has"
    return "restore it from a copy, since nothing else says what was planned"


def _entry(entry: Mapping[str, Any]) -> RunSpec:
    """Returns one entry; raises ValueError unless its id is the hash of the rest."""
    try:
        run = RunSpec.from_identity({**entry, "config": dict(entry["config"])})
    except KymographError as error:
        raise ValueError(str(error)) from None
    if type(run.seed) is not int or run.id != entry["id"]:
        raise ValueError("not the run that its id names")
    return run


def _pack(runs: Mapping[str, RunSpec]) -> bytes:
    """Returns the file: a line per run, so that a person can read it and a tool can compare it."""
    lines = ",\n  ".join(
        json.dumps({"id": run_id, **run.identity}, sort_keys=True, allow_nan=False) for run_id, run in runs.items()
    )
    return f'{{"schema": {SCHEMA},\n "runs": [\n  {lines}\n ]}}\n'.encode()
