"""The verdicts of one family: pair the seeds, check that each claim can be decided, weigh, decide."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kymograph.claims.claim import ABSENCES, MANIPULATION_CHECK, Check, Claim, Side, quantity_text, with_labels
from kymograph.claims.decision import (
    Decision,
    Evidence,
    decide_family,
    direction_sign,
    failing_note,
    reason,
    size_on_scale,
    weigh,
)
from kymograph.claims.design import LEVEL, stage
from kymograph.claims.estimands import Run, effect_bounds, measure
from kymograph.claims.evidence import (
    CannotDecide,
    StudyEvidence,
    check_pairing,
    named_settings,
    remarks,
    runs_by_seed,
    setup_label,
)
from kymograph.claims.verdict import Checked, Outcome, Point, Verdict
from kymograph.errors import KymographError
from kymograph.rounding import number_text
from kymograph.statistics.effects import hedges_g, iqm, pairing_gain, probability_of_improvement, superiority
from kymograph.statistics.intervals import bca_interval, binomial_upper_bound, t_interval
from kymograph.statistics.p_values import LEAST_SEEDS

_LARGEST = sys.float_info.max / 2**20  # so that neither differences nor sums over a million seeds overflow
_ROUNDING = 1e-12
"""The relative difference of two numbers that float64 may give the same computation in another order."""


def decide_claims(claims: Iterable[Claim], world: StudyEvidence, registration: Callable[[Claim], str]) -> list[Verdict]:
    """Returns a verdict on every claim of one study; its findings, including those not judged here, are one family.

    Manipulation checks are not findings: they are a family of their own. ``registration`` returns a claim's
    registration status, e.g. ``registered``.
    """
    drafts = [_draft(claim, world, registration(claim)) for claim in claims]
    verdicts: dict[int, Verdict] = {}
    for kind, unjudged in ((None, world.unjudged_claims), (MANIPULATION_CHECK, 0)):
        members = [index for index, (draft, _) in enumerate(drafts) if draft.claim.kind == kind]
        size = len(members) + unjudged
        decisions = decide_family(
            [drafts[index][0].claim for index in members], [drafts[index][1] for index in members], unjudged
        )
        for index, decision in zip(members, decisions, strict=True):
            draft, evidence = drafts[index]
            if evidence is None or decision is None:
                verdicts[index] = replace(draft, family_size=size)
            else:
                verdicts[index] = _decided(draft, evidence, decision, size, world.declaration.bounds)
    return [verdicts[index] for index in range(len(drafts))]


def _draft(claim: Claim, world: StudyEvidence, registration: str) -> tuple[Verdict, Evidence | None]:
    """Returns an undecided verdict with its evidence, or an INVALID one without evidence."""
    facts: dict[str, Any] = {"settings": named_settings(claim, world), "setup": setup_label(claim, world)}
    try:
        # Checks come first: a failed check is the reason, not its consequences for the numbers.
        checks = [_checked(check, world) for check in claim.checks]
        failed = [f'the check "{check.text}" failed: {check.found}' for check in checks if not check.passed]
        try:
            points, dropped = _points(claim, world)
        except CannotDecide as why:
            raise CannotDecide("; ".join(failed) or why.reason, (), checks) from None
        if failed:
            raise CannotDecide("; ".join(failed), points, checks)
        staged = stage(points, dropped, world.seeds, world.design)
        if pinned := _pinned(staged.points, claim.scale):
            raise CannotDecide(pinned, points, checks)
        notes = [f"seeds {', '.join(map(str, dropped))} diverged and were left out, as declared"] if dropped else []
        if len(staged.points) < LEAST_SEEDS:
            reason = f"{len(staged.points)} seeds, and fewer than {LEAST_SEEDS} can show nothing at the 5 % level"
            raise CannotDecide("; ".join([reason, *notes]), points, checks)
    except CannotDecide as why:
        notes = remarks(claim, world)
        return (
            Verdict(claim, Outcome.INVALID, why.reason, registration, why.points, why.checks, tuple(notes), **facts),
            None,
        )
    except KymographError as error:
        return Verdict(claim, Outcome.INVALID, str(error), registration, **facts), None
    evidence = weigh(claim, np.array([point.value for point in staged.points]), staged.looks)
    notes += [*staged.notes, *remarks(claim, world)]
    draft = Verdict(
        claim,
        Outcome.INCONCLUSIVE,
        "",
        registration,
        staged.points,
        tuple(checks),
        tuple(notes),
        interval_level=staged.level,
        **facts,
    )
    return draft, evidence


def _decided(
    draft: Verdict,
    evidence: Evidence,
    decision: Decision,
    family: int,
    declared_bounds: Mapping[str, tuple[float, float]],
) -> Verdict:
    claim, points = draft.claim, draft.points
    values = np.array([point.value for point in points])
    left, right = (np.array([getattr(point, side) for point in points]) for side in ("left", "right"))
    scaled = np.array([_on_scale(point, claim) for point in points])
    if claim.interaction is not None:  # a ratio of ratios may overflow, its logarithm does not
        left, right = scaled.T
    why, needed = reason(claim, decision, evidence, family)
    notes = list(draft.notes)
    if not decision.reachable and decision.outcome is Outcome.EQUIVALENT:
        notes.append(f"{draft.n} seeds could not have shown an effect at {claim.alpha:g} in a family of {family}")
    failing, bound = _failing(claim, points)
    if failing is not None and bound is not None:
        notes.append(failing_note(failing, draft.n, bound))
    bca = bca_interval(values)
    least, most = effect_bounds(claim, points, declared_bounds)

    def natural_interval(ends: tuple[float, float]) -> tuple[float, float]:
        low, high = (min(max(_natural(claim, end), least), most) for end in ends)
        return low, high

    tests = evidence.bounds.equivalence > 0
    level = _equivalence_level(claim, draft.interval_level) if tests or claim.direction == "equal" else None
    return replace(
        draft,
        outcome=decision.outcome,
        reason=why,
        notes=tuple(notes),
        effect=_natural(claim, float(values.mean())),
        interval=natural_interval(t_interval(values, draft.interval_level)),
        equivalence_interval=None if level is None else natural_interval(t_interval(values, level)),
        equivalence_level=level,
        bca=None if bca is None else natural_interval(bca),
        p=decision.p,
        p_t=float(evidence.t.direction),
        p_flip=float(evidence.flip.direction),
        hedges_g=_known(hedges_g(values)),
        superiority=superiority(left, right),
        tost_p=float(evidence.t.equivalence) if tests else None,
        iqm=_natural(claim, iqm(values)),
        improvement=probability_of_improvement(left, right),
        seeds_needed=needed,
        p_zero=decision.p_zero,
        p_margin=decision.p_margin,
        p_equivalence=decision.p_equivalence if tests else None,
        tost_flip_p=float(evidence.flip.equivalence) if tests else None,
        pairing_gain=_known(pairing_gain(*scaled.T)) if isinstance(claim.right, Side) else None,
        failing_seeds=failing,
        failing_rate_bound=bound,
        family_size=family,
    )


def _equivalence_level(claim: Claim, interval_level: float) -> float:
    """Returns the level of the interval by which equivalence is decided, before the correction over the family.

    Equivalence spends alpha on each side, and a claim of equality half of it. A look spends only its share of alpha.
    """
    share = (1 - interval_level) / (1 - LEVEL)
    return 1 - share * claim.alpha * (1 if claim.direction == "equal" else 2)


def _pinned(points: Sequence[Point], scale: str) -> str:
    """Returns why the numbers do not vary with the seed, as text; empty if they do.

    Numbers that agree, but for rounding, in more than half of the seeds are not replications: they are at a ceiling or
    a floor, the same thing was computed twice, or the seed has no effect.
    """
    largest = max(_agreeing(points, scale), key=len, default=[])
    count = len(largest)
    if count <= max(1, len(points) / 2):
        return ""
    where = "every seed" if count == len(points) else f"{count} of {len(points)} seeds"
    ends = {(f"{point.left:g}", f"{point.right:g}") for point in largest}
    shown = f" ({next(iter(ends))[0]} against {next(iter(ends))[1]})" if len(ends) == 1 else ""
    return (
        f"{where} give{'s' if count == len(points) else ''} the same number{shown}: a ceiling, a floor or an identity"
    )


def _agreeing(points: Sequence[Point], scale: str) -> list[list[Point]]:
    """Returns the points in groups whose effects differ by no more than rounding can make them differ."""
    groups: list[list[Point]] = []
    for point in sorted(points, key=lambda point: point.value):
        # A difference is as uncertain as the numbers it was taken of; the logarithm of a ratio is a pure number.
        size = 1.0 if scale == "log ratio" else max(map(abs, point.parts or (point.left, point.right)))
        if groups and point.value - groups[-1][-1].value <= _ROUNDING * size:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _failing(claim: Claim, points: tuple[Point, ...]) -> tuple[tuple[int, ...] | None, float | None]:
    """Returns the seeds beyond the margin that a claim of absence allows, and the upper bound on their rate."""
    if claim.direction not in (*ABSENCES, "equal"):
        return None, None
    margin, sign = size_on_scale(claim, claim.margin), direction_sign(claim)

    def fails(value: float) -> bool:
        return abs(value) > margin if claim.direction == "equal" else sign * value < -margin

    seeds = tuple(point.seed for point in points if fails(point.value))
    return seeds, binomial_upper_bound(len(seeds), len(points), 1 - claim.alpha)


def _points(claim: Claim, world: StudyEvidence) -> tuple[list[Point], list[int]]:
    """Returns every seed's numbers, and the seeds left out as declared; raises `CannotDecide` with the reason."""
    sides = [runs_by_seed(quantity, world) for quantity in claim.sides]
    unpaired = sorted({seed for side in sides[1:] for seed in set(sides[0]) ^ set(side)})
    if unpaired:
        raise CannotDecide(f"seed {unpaired[0]} has a run in {'one arm' if len(sides) == 2 else 'some arms'} only")
    check_pairing(claim, sides, world)
    points, dropped = [], []
    for seed in sorted(sides[0]):
        runs = [side[seed] for side in sides]
        numbers = [measure(run, quantity.measure) for run, quantity in zip(runs, claim.sides, strict=True)]
        found = list(zip(numbers, runs, claim.sides, strict=True))
        gone = [quantity for value, run, quantity in found if _diverged(value, run)]
        if gone:
            if claim.diverged == "drop":
                dropped.append(seed)
                continue
            raise CannotDecide(f"{quantity_text(gone[0], world.declaration)} is not finite at seed {seed}: it diverged")
        for value, _, quantity in found:
            if math.isnan(value):
                raise CannotDecide(f"{quantity_text(quantity, world.declaration)} is missing at seed {seed}")
        compared = numbers if isinstance(claim.right, Side) else [*numbers, float(claim.right)]
        names = claim.sides if isinstance(claim.right, Side) else (*claim.sides, claim.right)
        if claim.scale == "log ratio" and min(compared) <= 0:
            value, one = next((value, name) for value, name in zip(compared, names, strict=True) if value <= 0)
            name = quantity_text(one, world.declaration) if isinstance(one, Side) else "the number compared with"
            raise CannotDecide(f"{name} is {value:g} at seed {seed}, and a ratio needs positive numbers")
        if claim.scale != "log ratio" and (largest := max(map(abs, compared))) > _LARGEST:
            raise CannotDecide(f"a number at seed {seed} is as large as {largest:g}: its statistics would overflow")
        points.append(_point(seed, compared, claim))
    return points, dropped


def _point(seed: int, numbers: Sequence[float], claim: Claim) -> Point:
    """Returns a seed's evidence from its two numbers, or from the four of an interaction."""
    scaled = [math.log(number) for number in numbers] if claim.scale == "log ratio" else list(numbers)
    if len(numbers) == 2:
        return Point(seed, numbers[0], numbers[1], scaled[0] - scaled[1])
    left, right = scaled[0] - scaled[1], scaled[2] - scaled[3]
    return Point(seed, _natural(claim, left), _natural(claim, right), left - right, tuple(numbers))


def _on_scale(point: Point, claim: Claim) -> tuple[float, float]:
    """Returns a seed's two compared numbers on the scale of the claim: logarithms for a ratio."""
    numbers = point.parts or (point.left, point.right)
    scaled = [math.log(number) for number in numbers] if claim.scale == "log ratio" else numbers
    return (scaled[0], scaled[1]) if len(scaled) == 2 else (scaled[0] - scaled[1], scaled[2] - scaled[3])


def _diverged(value: float, run: Run) -> bool:
    """Returns whether a number is infinite, or missing in a run whose summary says that it is not finite."""
    return math.isinf(value) or (math.isnan(value) and run.summary.get("finite") is False)


def _checked(check: Check, world: StudyEvidence) -> Checked:
    """Returns whether the check holds in every seed, and what was found."""
    runs = runs_by_seed(check.quantity, world)
    values = {seed: measure(run, check.quantity.measure) for seed, run in runs.items()}

    def holds(value: float) -> bool:
        if math.isnan(value):
            return False
        return check.least < value < check.most if check.strict else check.least <= value <= check.most

    bad = [seed for seed, value in values.items() if not holds(value)]
    numbers = np.array([values[seed] for seed in bad] if bad else list(values.values()))
    known = numbers[~np.isnan(numbers)]
    spread = "missing" if not len(known) else number_text(known.min())
    if len(known) and (known != known[0]).any():
        spread += f" to {number_text(known.max())}"
    if 0 < len(known) < len(numbers):
        spread += " or missing"
    where = f" at {len(bad)} of {len(values)} seeds" if bad else ""
    text = with_labels(check.text, world.declaration)
    return Checked(text, not bad, f"{quantity_text(check.quantity, world.declaration)} is {spread}{where}")


def _natural(claim: Claim, value: float) -> float:
    """Returns a log-ratio as a ratio, a difference unchanged."""
    if claim.scale != "log ratio":
        return value
    return math.exp(value) if value < 709 else math.inf


def _known(value: float) -> Any:
    return None if math.isnan(value) else value
