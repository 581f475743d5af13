"""Which runs to compute, grouped into the stacks that train together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.runs.record import is_finished
from kymograph.runs.spec import RunSpec, digest


@dataclass(frozen=True)
class Stack:
    """Runs that train as one network with a leading replica axis.

    The stack is planned from all runs asked for, finished or not, and is always computed whole; only its missing runs
    are stored. So a restart computes the same stack bit for bit.
    """

    specs: tuple[RunSpec, ...]
    missing: tuple[bool, ...]
    steps: int

    @property
    def id(self) -> str:
        """The hash of the ids of its runs."""
        return digest([spec.id for spec in self.specs])

    def to_json(self) -> dict[str, Any]:
        """Returns the stack as a JSON-compatible dictionary, for a worker process."""
        return {
            "specs": [spec.identity for spec in self.specs],
            "missing": list(self.missing),
            "steps": self.steps,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Stack:
        """Rebuilds the stack from the output of `to_json`."""
        specs = tuple(RunSpec.from_identity(identity) for identity in value["specs"])
        return Stack(specs, tuple(value["missing"]), value["steps"])


def plan(
    specs: Sequence[RunSpec],
    root: Path,
    stack_key: Callable[[RunSpec], tuple],
    steps: Callable[[RunSpec], int],
    largest: int,
) -> list[Stack]:
    """Returns all stacks, the longest first, with their missing runs marked; raises if a stored record is damaged.

    Runs with the same key are cut into the fewest stacks of at most ``largest``, as equal in size as possible.
    """
    groups: dict[tuple, list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault(stack_key(spec), []).append(spec)
    stacks = []
    for group in groups.values():
        count = -(-len(group) // largest)
        cuts = [len(group) * part // count for part in range(count + 1)]
        for start, stop in itertools.pairwise(cuts):
            members = tuple(group[start:stop])
            missing = tuple(not is_finished(root, spec) for spec in members)
            stacks.append(Stack(members, missing, steps(members[0])))
    return sorted(stacks, key=lambda stack: -stack.steps * len(stack.specs))
