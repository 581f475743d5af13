"""Which runs a claim compares: one per arm and seed, paired by seed, and differing only in what the arms declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kymograph.claims.claim import Claim, Quantity
from kymograph.claims.display_names import measure_name
from kymograph.claims.estimands import Run
from kymograph.claims.verdict import Checked, Point
from kymograph.claims.world import World, fits, quantities
from kymograph.wording import counted


class CannotDecide(Exception):
    """The reason why a claim is INVALID."""

    def __init__(self, reason: str, points: Sequence[Point] = (), checks: Sequence[Checked] = ()) -> None:
        super().__init__(reason)
        self.reason, self.points, self.checks = reason, tuple(points), tuple(checks)


def runs_by_seed(quantity: Quantity, world: World) -> dict[int, Run]:
    """Returns the arm's run at every seed; raises if one is missing, or if several match."""
    if world.changed_records:
        raise CannotDecide("; ".join(world.changed_records))
    chosen = world.tuned.get(quantity.arm)
    if chosen is not None and chosen.problem:
        raise CannotDecide(chosen.problem)
    selected, arm = world.selected(quantity), world.declaration.label(quantity.arm)
    if selected.invalid:
        run = min(selected.invalid, key=lambda run: run.seed)
        raise CannotDecide(f"the run of {arm} at seed {run.seed} does not count: {run.failure}")
    found: dict[int, Run] = {}
    for one in selected.runs:
        if one.seed in found:
            names = sorted(name for name in one.config if one.config[name] != found[one.seed].config.get(name))
            how = f"they differ in {', '.join(names)}: choose with --where" if names else "keep one of them"
            raise CannotDecide(f"several runs of {arm} fit at seed {one.seed}; {how}")
        found[one.seed] = one
    missing = sorted({run.seed for run in selected.planned if run.seed not in found})
    if missing:
        raise CannotDecide(
            f"{len(missing)} of {len(missing) + len(found)} planned runs of {arm} are missing "
            f"(seed {', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''})"
        )
    if not found:
        older = world.superseded.get(quantity.arm)
        if older:
            raise CannotDecide(f"all {len(older)} runs of {arm} are superseded; run the study again")
        lost = [run for run in world.abandoned if fits(run, quantity)]
        if lost:
            raise CannotDecide(f"all {len(lost)} planned runs of {arm} were abandoned")
        settings = "".join(f", {name} {value}" for name, value in quantity.where.items())
        measure = measure_name(quantity.measure, world.declaration)
        raise CannotDecide(f"no finished run of {arm}{settings} has {measure}")
    return found


def check_pairing(claim: Claim, sides: Sequence[Mapping[int, Run]], world: World) -> None:
    """Raises if paired runs differ in a setting that no arm is about; ``sides`` are the runs of the claim's sides."""
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
        count = counted(len(older), "run")
        found.append(f"{count} of the study's earlier code ({codes}) superseded and not used")
    if world.code_changed:
        found.append(world.code_changed)
    further = sorted({seed for arm in arms for seed in world.further_seeds.get(arm, ())})
    if further:
        shown = ", ".join(map(str, further[:3])) + (", ..." if len(further) > 3 else "")
        found.append(f"{len(further)} seeds beyond the registered ones were not used ({shown})")
    if world.narrowed:
        found.append(f"narrowed with {world.narrowed}")
    unused = [selected for quantity in quantities(claim) if (selected := world.selected(quantity)).unused]
    if unused:
        names = ", ".join(dict.fromkeys(name for selected in unused for name in selected.unused_for))
        found.append(f"{max(one.unused for one in unused)} runs with another {names} than registered were not used")
    found += _tuning_remarks(list(arms), world)
    chosen_away = world.unjudged_claims - world.never_run_claims
    if chosen_away:
        verbs = ("shares", "is") if chosen_away == 1 else ("share", "are")
        claims = counted(chosen_away, "more registered claim")
        found.append(f"{claims} {verbs[0]} the level and {verbs[1]} not judged here")
    return found


def _tuning_remarks(arms: Sequence[str], world: World) -> list[str]:
    """Returns the values chosen for a claim's tuned arms, one sentence per setting."""
    chosen: dict[str, list[str]] = {}
    for arm in arms:
        one = world.tuned.get(arm)
        if one is not None and one.value is not None:
            chosen.setdefault(one.tuned.setting, []).append(f"{world.declaration.label(arm)} {one.value}")
    return [f"{setting} tuned on separate seeds: {', '.join(values)}" for setting, values in chosen.items()]
