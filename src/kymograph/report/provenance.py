"""The provenance of a page's runs: machines, versions and ids, and which runs failed or are damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph.runs.archive import Damaged
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun


@dataclass(frozen=True)
class Environment:
    """A machine and its software, and how many of the runs were computed there."""

    runs: int
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ArmIds:
    """The runs of one arm by seed and id."""

    study: str
    arm: str
    runs: tuple[tuple[int, str, str], ...]
    """Seed, id and status."""


@dataclass(frozen=True)
class LostRun:
    """A run that was excluded, and why."""

    study: str
    arm: str
    seed: int
    reason: str


def environments(store: Store) -> list[Environment]:
    """Returns the distinct environments in which runs were computed, the most common first."""
    groups: dict[str, list[StoredRun]] = {}
    for run in store:
        facts = {key: value for key, value in run.provenance.items() if key not in ("stack", "log", "notes")}
        groups.setdefault(json.dumps(facts, sort_keys=True, default=str), []).append(run)
    return [
        Environment(len(runs), tuple(_flat(json.loads(text))))
        for text, runs in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    ]


def _flat(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in sorted(facts.items()):
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key} · ")
        else:
            rows.append((f"{prefix}{key}", str(value)))
    return rows


def run_ids(store: Store) -> list[ArmIds]:
    """Returns the seed, id and status of every run, by study and arm."""
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in store:
        groups.setdefault((run.study, run.arm), []).append(run)
    return [
        ArmIds(study, arm, tuple((run.seed, run.id, run.status) for run in sorted(runs, key=lambda r: (r.seed, r.id))))
        for (study, arm), runs in groups.items()
    ]


def failed_runs(store: Store) -> list[LostRun]:
    """Returns the runs that failed, each with its reason."""
    return [LostRun(run.study, run.arm, run.seed, run.reason or "unknown") for run in store.failed]


def damaged_runs(damaged: Sequence[Damaged]) -> list[LostRun]:
    """Returns the runs whose records could not be read, each with its reason."""
    return [LostRun(run.study, run.arm, run.seed, run.reason) for run in damaged]
