"""Which runs were ever asked for: ``STUDY/plan.json``, written before the first run of a sweep starts.

A later sweep adds its runs and never unlists any, so that a planned seed that is missing can be distinguished from one
that nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.files import SCHEMA, check_schema, make_directory, one_at_a_time, write_atomically
from kymograph.runs.spec import RunSpec, slug

PLAN = "plan.json"


def record_plan(root: Path, specs: Iterable[RunSpec]) -> None:
    """Adds ``specs`` to the plans of their studies below ``root``; raises if an existing plan is damaged."""
    studies: dict[str, list[RunSpec]] = {}
    for spec in specs:
        studies.setdefault(slug(spec.study), []).append(spec)
    for name, members in studies.items():
        directory = root / name
        make_directory(directory)
        with one_at_a_time(directory):
            path = directory / PLAN
            before = {run.id: run for run in read_plan_file(path)} if path.exists() else {}
            after = {**before, **{spec.id: spec for spec in members if spec.id not in before}}
            if len(after) > len(before):
                write_atomically(path, _pack(after))


def read_plan(root: Path) -> list[RunSpec]:
    """Returns every run ever planned below ``root``, an output directory or a study's own; none if it has no plan."""
    return [run for path in sorted([*root.glob(PLAN), *root.glob(f"*/{PLAN}")]) for run in read_plan_file(path)]


def read_plan_file(path: Path) -> list[RunSpec]:
    """Returns the runs of one plan file, in the order they were planned; raises if it is damaged, edited or newer."""
    damaged = KymographError(
        f"{path} is cut off or edited, so what was planned is unknown; delete it and run the sweep's command again"
    )
    try:
        content = json.loads(path.read_bytes())
        schema, entries = content["schema"], content["runs"]
        if not isinstance(schema, int):
            raise damaged
        check_schema(schema, path)
        return [_entry(entry) for entry in entries]
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None


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
