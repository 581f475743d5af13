"""From runs and claims to verdicts: pair the seeds, check that the claim can be decided, weigh, decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from kymograph.claims import decide
from kymograph.claims.claim import Check, Claim, Quantity
from kymograph.claims.estimands import Run, measure
from kymograph.claims.pairing import CannotDecide, World, check_pairing, fits, quantities, runs_by_seed
from kymograph.claims.verdict import Checked, Outcome, Point, Verdict
from kymograph.errors import KymographError
from kymograph.statistics.effects import hedges_g, iqm, probability_of_improvement, superiority
from kymograph.statistics.intervals import bca_interval, t_interval
from kymograph.statistics.sign_flips import LEAST_SEEDS
from kymograph.statistics.t_tests import tost_p


def decide_claims(claims: Iterable[Claim], world: World, registration: Callable[[Claim], str]) -> list[Verdict]:
    """Returns a verdict on every claim of one study, corrected within each family.

    ``registration`` says how a claim stands to what was registered before the runs.
    """
    drafts = [_draft(claim, world, registration(claim)) for claim in claims]
    verdicts = []
    for draft, evidence in drafts:
        if evidence is None:
            verdicts.append(draft)
            continue
        family = [(d, e) for d, e in drafts if d.claim.family == draft.claim.family]
        index = next(number for number, (d, _) in enumerate(family) if d is draft)
        p = decide.corrected([None if e is None else e.p for _, e in family])[index]
        verdicts.append(_decided(draft, evidence, p, len(family)))
    return verdicts


def _draft(claim: Claim, world: World, registration: str) -> tuple[Verdict, decide.Evidence | None]:
    """Returns a verdict that lacks its decision with the evidence for it, or INVALID without evidence."""
    try:
        # Checks come first: where one fails, it is the reason, and not what its failing does to the numbers.
        checks = [_checked(check, world) for check in claim.checks]
        failed = [f"it does not hold that {check.text}: {check.found}" for check in checks if not check.passed]
        try:
            points, notes = _points(claim, world)
        except CannotDecide as why:
            raise CannotDecide("; ".join(failed) or why.reason, (), checks) from None
        if failed:
            raise CannotDecide("; ".join(failed), points, checks)
        if len(points) < LEAST_SEEDS:
            reason = f"{len(points)} seeds, and fewer than {LEAST_SEEDS} can show nothing at the 5 % level"
            raise CannotDecide("; ".join([reason, *notes]), points, checks)
    except CannotDecide as why:
        settings = _settings(claim, world)
        verdict = Verdict(claim, Outcome.INVALID, why.reason, registration, why.points, why.checks, settings=settings)
        return verdict, None
    except KymographError as error:
        return Verdict(claim, Outcome.INVALID, str(error), registration, settings=_settings(claim, world)), None
    evidence = decide.weigh(claim, np.array([point.value for point in points]))
    arms = dict.fromkeys(quantity.arm for quantity in quantities(claim))
    left_out = sorted({seed for arm in arms for seed in world.unjudged.get(arm, ())})
    if left_out:
        notes.append(f"planned and not among these runs: seed {', '.join(map(str, left_out))}")
    older = sum(world.superseded.get(arm, 0) for arm in arms)
    if older:
        notes.append(f"{older} {'run' if older == 1 else 'runs'} of the study's earlier code superseded and not used")
    draft = Verdict(
        claim,
        Outcome.INCONCLUSIVE,
        "",
        registration,
        tuple(points),
        tuple(checks),
        tuple(notes),
        settings=_settings(claim, world),
    )
    return draft, evidence


def _decided(draft: Verdict, evidence: decide.Evidence, p: float, family: int) -> Verdict:
    claim, n = draft.claim, draft.n
    found = decide.outcome(evidence, p, claim.alpha)
    values = np.array([point.value for point in draft.points])
    left, right = (np.array([getattr(point, side) for point in draft.points]) for side in ("left", "right"))
    notes = list(draft.notes)
    if not decide.can_decide(n, family, claim.alpha):
        notes.append(f"{n} seeds cannot reach {claim.alpha:g} in a family of {family}: no effect could have shown")
    if n > 1 and (values == values[0]).all():
        notes.append("every seed gives the same number")
    needed, aim = None, Outcome.INCONCLUSIVE
    if found is Outcome.INCONCLUSIVE:
        needed, aim = decide.seeds_to_decide(evidence, claim.alpha, family)
    bca = bca_interval(values)
    return replace(
        draft,
        outcome=found,
        reason=_reason(claim, found, needed, aim, bool(evidence.values.any())),
        notes=tuple(notes),
        effect=_natural(claim, float(values.mean())),
        interval=_natural_pair(claim, t_interval(values, 0.95)),
        equivalence_interval=_natural_pair(claim, t_interval(values, 0.90)),
        bca=None if bca is None else _natural_pair(claim, bca),
        p=p,
        p_t=evidence.p_t,
        p_flip=evidence.p_flip,
        hedges_g=_known(hedges_g(values)),
        superiority=superiority(left, right),
        tost_p=tost_p(values, evidence.margin) if evidence.margin > 0 else None,
        iqm=_natural(claim, iqm(values)),
        improvement=probability_of_improvement(left, right),
        seeds_needed=needed,
    )


def _points(claim: Claim, world: World) -> tuple[list[Point], list[str]]:
    """Returns every seed's numbers, or raises why the claim cannot be decided."""
    left = runs_by_seed(claim.left, world)
    right = left if not isinstance(claim.right, Quantity) else runs_by_seed(claim.right, world)
    unpaired = sorted(set(left) ^ set(right))
    if unpaired:
        raise CannotDecide(f"seed {unpaired[0]} has a run in one arm only")
    check_pairing(claim, left, right, world)
    points, dropped = [], []
    for seed in sorted(left):
        a = measure(left[seed], claim.left.measure)
        b = measure(right[seed], claim.right.measure) if isinstance(claim.right, Quantity) else float(claim.right)
        sides = ((a, left[seed], claim.left), (b, right[seed], claim.right))
        gone = [quantity for value, run, quantity in sides if _diverged(value, run)]
        if gone:
            if claim.diverged == "drop":
                dropped.append(seed)
                continue
            raise CannotDecide(f"{gone[0]} is not finite at seed {seed}: it diverged")
        for value, _, quantity in sides:
            if math.isnan(value):
                raise CannotDecide(f"{quantity} is missing at seed {seed}")
        if claim.scale == "log ratio" and (a <= 0 or b <= 0):
            side = claim.left if a <= 0 else claim.right
            raise CannotDecide(f"{side} is {min(a, b):g} at seed {seed}, and a ratio needs positive numbers")
        points.append(Point(seed, a, b, math.log(a) - math.log(b) if claim.scale == "log ratio" else a - b))
    notes = [f"seeds {', '.join(map(str, dropped))} diverged and were left out, as declared"] if dropped else []
    return points, notes


def _settings(claim: Claim, world: World) -> dict[str, Any]:
    """Returns the qualifying settings that all runs of the claim share."""
    mine = [run for run in world.runs if any(fits(run, quantity) for quantity in quantities(claim))]
    found = {}
    for name in world.qualifying:
        values = {repr(run.config.get(name)): run.config.get(name) for run in mine if name in run.config}
        if len(values) == 1:
            found[name] = next(iter(values.values()))
    return found


def _diverged(value: float, run: Run) -> bool:
    """Says whether a number is infinite, or missing in a run that says of itself that it is not finite."""
    return math.isinf(value) or (math.isnan(value) and run.summary.get("finite") is False)


def _checked(check: Check, world: World) -> Checked:
    """Returns whether the check holds in every seed, and what was found."""
    runs = runs_by_seed(check.quantity, world)
    values = {seed: measure(run, check.quantity.measure) for seed, run in runs.items()}

    def holds(value: float) -> bool:
        if math.isnan(value):
            return False
        return check.least < value < check.most if check.strict else check.least <= value <= check.most

    bad = [seed for seed, value in values.items() if not holds(value)]
    numbers = np.array([values[seed] for seed in bad] if bad else list(values.values()))
    spread = f"{numbers.min():.3g}" if (numbers == numbers[0]).all() else f"{numbers.min():.3g} to {numbers.max():.3g}"
    where = f" at {len(bad)} of {len(values)} seeds" if bad else ""
    return Checked(check.text, not bad, f"{check.quantity} is {spread}{where}")


def _reason(claim: Claim, found: Outcome, needed: int | None, aim: Outcome, moved: bool) -> str:
    margin = f"x{claim.margin:g}" if claim.scale == "log ratio" else f"{claim.margin:g}"
    absence = claim.direction in ("not less", "not greater")
    if found is Outcome.SUPPORTED:
        return f"{claim.direction} within {margin}" if absence else f"beyond the margin of {margin}"
    if found is Outcome.REFUTED:
        return f"beyond the margin of {margin}" if absence else "the effect goes the other way"
    if found is Outcome.EQUIVALENT:
        return f"the 90 % interval lies within the margin of {margin}"
    if not moved:
        return "every difference is zero"
    if needed is None:
        return "too uncertain; no number of seeds up to 1,000 would tell"
    return f"too uncertain; {needed} seeds needed" + (" to call it equivalent" if aim is Outcome.EQUIVALENT else "")


def _natural(claim: Claim, value: float) -> float:
    """Returns a log-ratio as a ratio, a difference as it is."""
    if claim.scale != "log ratio":
        return value
    return math.exp(value) if value < 709 else math.inf


def _natural_pair(claim: Claim, pair: tuple[float, float]) -> tuple[float, float]:
    return _natural(claim, pair[0]), _natural(claim, pair[1])


def _known(value: float) -> Any:
    return None if math.isnan(value) else value
