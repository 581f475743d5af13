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
    superseded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The code of every run of each arm that was made by earlier code of the study."""
    code_changed: str = ""
    """How the study's code differs from what made these runs, if whoever judges named code that does."""
    changed_records: Sequence[str] = ()
    """What was deleted or edited since it was logged; while there is anything, nothing can be decided."""
    seeds: tuple[int, ...] | None = None
    """The registered seeds, over which claims are decided; None: none were registered."""
    further_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Seeds, by arm, that have runs and were not registered; they are not used."""
    unjudged_claims: int = 0
    """How many claims of the study were registered and are not judged here; they still share the level."""


class CannotDecide(Exception):
    """A reason for which a claim is INVALID."""

    def __init__(self, reason: str, points: Sequence[Point] = (), checks: Sequence[Checked] = ()) -> None:
        super().__init__(reason)
        self.reason, self.points, self.checks = reason, tuple(points), tuple(checks)


def quantities(claim: Claim) -> list[Quantity]:
    """Returns every quantity that the claim rests on."""
    return [*claim.sides, *(check.quantity for check in claim.checks)]


def asked(claim: Claim, world: World) -> bool:
    """Says whether everything that the claim compares was ever set out to run."""
    there: list[Run | RunSpec | Invalid] = [*world.runs, *world.planned, *world.invalid]
    return all(
        quantity.arm in world.superseded or any(fits(run, quantity) for run in there) for quantity in quantities(claim)
    )


def runs_by_seed(quantity: Quantity, world: World) -> dict[int, Run]:
    """Returns the arm's run at every seed; raises if one is absent, or if several fit."""
    if world.changed_records:
        raise CannotDecide("; ".join(world.changed_records))
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
        older = world.superseded.get(quantity.arm)
        if older:
            raise CannotDecide(f"all {len(older)} runs of {quantity.arm} are superseded; run the study again")
        raise CannotDecide(f"there is no finished run of {quantity}")
    return found


def fits(run: Run | RunSpec | Invalid, quantity: Quantity) -> bool:
    """Says whether a run is of the quantity's arm and settings; one whose settings are lost may be."""
    if run.arm != quantity.arm:
        return False
    return run.config is None or all(run.config.get(name) == value for name, value in quantity.where.items())


def check_pairing(claim: Claim, sides: Sequence[Mapping[int, Run]], world: World) -> None:
    """Raises if paired runs differ in a setting that none of the arms is about; ``sides`` are as the claim's."""
    if not world.declared:
        return
    about: set[str] = set()
    for quantity in claim.sides:
        about |= world.declared.get(quantity.arm, frozenset()) | set(quantity.where)
    for other_side in sides[1:]:
        for seed, one in sides[0].items():
            other = other_side[seed]
            for name in sorted(set(one.config) | set(other.config)):
                if name not in about and one.config.get(name) != other.config.get(name):
                    raise CannotDecide(f"the arms differ in {name} at seed {seed}, which is not what they are about")


def remarks(claim: Claim, world: World) -> list[str]:
    """Returns what a reader must know about the runs behind a verdict: which were left out, and which are missing."""
    arms = dict.fromkeys(quantity.arm for quantity in quantities(claim))
    found = []
    left_out = sorted({seed for arm in arms for seed in world.unjudged.get(arm, ())})
    if left_out:
        found.append(f"planned and not among these runs: seed {', '.join(map(str, left_out))}")
    older = [code for arm in arms for code in world.superseded.get(arm, ())]
    if older:
        codes = ", ".join(dict.fromkeys(older))
        count = f"{len(older)} {'run' if len(older) == 1 else 'runs'}"
        found.append(f"{count} of the study's earlier code ({codes}) superseded and not used")
    if world.code_changed:
        found.append(world.code_changed)
    further = sorted({seed for arm in arms for seed in world.further_seeds.get(arm, ())})
    if further:
        shown = ", ".join(map(str, further[:3])) + (", ..." if len(further) > 3 else "")
        found.append(f"{len(further)} seeds beyond the registered ones were not used ({shown})")
    if world.unjudged_claims:
        found.append(f"{world.unjudged_claims} more registered claims share the level and are not judged here")
    return found
