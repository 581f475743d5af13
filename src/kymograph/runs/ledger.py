"""Which runs were ever asked for: ``STUDY/plan.json``, written before the first run of a sweep starts.

A later sweep adds its runs and never unlists any, so that a seed that was planned and is missing can be told from one
that nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.files import check_schema, make_directory, one_at_a_time, write_atomically
from kymograph.runs.spec import RunSpec, Scalar, slug

PLAN = "plan.json"
SCHEMA = 1


@dataclass(frozen=True)
class PlannedRun:
    """One run that a sweep was asked for, whether or not it was computed."""

    id: str
    study: str
    arm: str
    seed: int
    config: Mapping[str, Scalar]
    version: int

    @staticmethod
    def of(spec: RunSpec) -> PlannedRun:
        """Returns the entry of ``spec``."""
        return PlannedRun(spec.id, spec.study, spec.arm, spec.seed, dict(spec.config), spec.version)

    @property
    def name(self) -> str:
        """The name of the run's directory inside its study's."""
        return RunSpec(self.study, self.arm, self.seed, self.config, self.version).directory.split("/")[-1]


def note_plan(root: Path, specs: Iterable[RunSpec]) -> None:
    """Adds ``specs`` to the plans of their studies below ``root``; raises if a plan that is there is damaged."""
    studies: dict[str, list[RunSpec]] = {}
    for spec in specs:
        studies.setdefault(slug(spec.study), []).append(spec)
    for name, members in studies.items():
        directory = root / name
        make_directory(directory)
        with one_at_a_time(directory):
            path = directory / PLAN
            before = {run.id: run for run in read_plan_file(path)} if path.exists() else {}
            after = {**before, **{spec.id: PlannedRun.of(spec) for spec in members if spec.id not in before}}
            if len(after) > len(before):
                write_atomically(path, _pack(after.values()))


def read_plan(root: Path) -> list[PlannedRun]:
    """Returns every run ever planned below ``root``, an output directory or a study's own; none if it has no plan."""
    return [run for path in sorted([*root.glob(PLAN), *root.glob(f"*/{PLAN}")]) for run in read_plan_file(path)]


def read_plan_file(path: Path) -> list[PlannedRun]:
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
        runs = [_entry(entry) for entry in entries]
    except OSError as error:
        raise KymographError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    return runs


def _entry(entry: Mapping[str, Any]) -> PlannedRun:
    """Returns one entry; raises ValueError unless its id is the hash of the rest."""
    run = PlannedRun(entry["id"], entry["study"], entry["arm"], entry["seed"], dict(entry["config"]), entry["version"])
    texts = isinstance(run.study, str) and isinstance(run.arm, str) and type(run.seed) is int
    if not texts or RunSpec(run.study, run.arm, run.seed, run.config, run.version).id != run.id:
        raise ValueError("not the run that its id names")
    return run


def _pack(runs: Iterable[PlannedRun]) -> bytes:
    """Returns the file: a line per run, so that a person can read it and a tool can compare it."""
    lines = ",\n  ".join(json.dumps(vars(run), sort_keys=True, allow_nan=False) for run in runs)
    return f'{{"schema": {SCHEMA},\n "runs": [\n  {lines}\n ]}}\n'.encode()
