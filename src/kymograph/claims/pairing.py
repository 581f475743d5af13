"""Which runs a claim compares: one per arm and seed, paired by seed, different in nothing but what the arms declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kymograph.claims.claim import Claim, Quantity
from kymograph.claims.estimands import Run
from kymograph.claims.verdict import Checked, Point
from kymograph.runs.spec import RunSpec


class Invalid(Protocol):
    """A run that ended and does not count: it failed, or its record is damaged."""

    @property
    def arm(self) -> str:
        """The condition."""
        ...

    @property
    def seed(self) -> int:
        """The replication."""
        ...

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The settings; None if they are lost."""
        ...

    @property
    def failure(self) -> str:
        """Why it does not count."""
        ...


@dataclass(frozen=True)
class World:
    """All that is known about one study's runs: those that finished, and those that should be there and are not."""

    runs: Sequence[Run]
    planned: Sequence[RunSpec] = ()
    invalid: Sequence[Invalid] = ()
    """Runs that ended and do not count."""
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The settings that each arm is about; paired runs may differ in these and in nothing else."""
    qualifying: Sequence[str] = ()
    """The settings that a reader of a verdict must know."""
    unjudged: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Planned seeds, by arm, that whoever chose these runs left out."""
    superseded: Mapping[str, int] = field(default_factory=dict)
    """How many runs of each arm were made by earlier code of the study."""


class CannotDecide(Exception):
    """A reason for which a claim is INVALID."""

    def __init__(self, reason: str, points: Sequence[Point] = (), checks: Sequence[Checked] = ()) -> None:
        super().__init__(reason)
        self.reason, self.points, self.checks = reason, tuple(points), tuple(checks)


def quantities(claim: Claim) -> list[Quantity]:
    """Returns every quantity that the claim rests on."""
    sides = [claim.left, *([claim.right] if isinstance(claim.right, Quantity) else [])]
    return sides + [check.quantity for check in claim.checks]


def asked(claim: Claim, world: World) -> bool:
    """Says whether everything that the claim compares was ever set out to run."""
    there: list[Run | RunSpec | Invalid] = [*world.runs, *world.planned, *world.invalid]
    return all(any(fits(run, quantity) for run in there) for quantity in quantities(claim))


def runs_by_seed(quantity: Quantity, world: World) -> dict[int, Run]:
    """Returns the arm's run at every seed; raises if one is absent, or if several fit."""
    for run in sorted(world.invalid, key=lambda run: run.seed):
        if fits(run, quantity):
            raise CannotDecide(f"the run of {run.arm} at seed {run.seed} does not count: {run.failure}")
    found: dict[int, Run] = {}
    for one in world.runs:
        if not fits(one, quantity):
            continue
        if one.seed in found:
            names = sorted(name for name in one.config if one.config[name] != found[one.seed].config.get(name))
            how = f"they differ in {', '.join(names)}: choose with --where" if names else "keep one of them"
            raise CannotDecide(f"several runs of {quantity.arm} fit at seed {one.seed}; {how}")
        found[one.seed] = one
    missing = sorted({run.seed for run in world.planned if fits(run, quantity) and run.seed not in found})
    if missing:
        raise CannotDecide(
            f"{len(missing)} of {len(missing) + len(found)} planned runs of {quantity.arm} are missing "
            f"(seed {', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''})"
        )
    if not found:
        raise CannotDecide(f"there is no finished run of {quantity}")
    return found


def fits(run: Run | RunSpec | Invalid, quantity: Quantity) -> bool:
    """Says whether a run is of the quantity's arm and settings; one whose settings are lost may be."""
    if run.arm != quantity.arm:
        return False
    return run.config is None or all(run.config.get(name) == value for name, value in quantity.where.items())


def check_pairing(claim: Claim, left: Mapping[int, Run], right: Mapping[int, Run], world: World) -> None:
    """Raises if two paired runs differ in a setting that neither arm is about."""
    if not isinstance(claim.right, Quantity) or not world.declared:
        return
    about = world.declared.get(claim.left.arm, frozenset()) | world.declared.get(claim.right.arm, frozenset())
    about |= set(claim.left.where) | set(claim.right.where)
    for seed, one in left.items():
        other = right[seed]
        names = sorted(set(one.config) | set(other.config))
        for name in names:
            if name not in about and one.config.get(name) != other.config.get(name):
                raise CannotDecide(f"the arms differ in {name} at seed {seed}, which is not what they are about")
