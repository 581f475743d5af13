"""The verdicts of one family: each claim's numbers are weighed, and all claims of the family are decided together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from kymograph._claims.claim import ABSENCES, MANIPULATION_CHECK, Claim, Side
from kymograph._claims.decision import (
    Decision,
    WeighedEvidence,
    decide_family,
    direction_sign,
    failing_note,
    reason,
    size_on_scale,
    weigh,
)
from kymograph._claims.design import LEVEL, stage
from kymograph._claims.estimands import Range, checked, compared_points, effect_bounds, natural, on_scale, pinned
from kymograph._claims.evidence import CannotDecide, StudyEvidence, named_settings, remarks, setup_label
from kymograph._claims.verdict import Outcome, Point, Verdict
from kymograph._errors import KymographError
from kymograph._statistics.effects import hedges_g, iqm, pairing_gain, probability_of_improvement, superiority
from kymograph._statistics.intervals import bca_interval, binomial_upper_bound, t_interval
from kymograph._statistics.p_values import LEAST_SEEDS


def decide_claims(
    claims: Iterable[Claim], evidence: StudyEvidence, registration: Callable[[Claim], str]
) -> list[Verdict]:
    """Returns a verdict on every claim of one study; its findings, including those not judged here, are one family.

    Manipulation checks are not findings: they are a family of their own. ``registration`` returns a claim's
    registration status, e.g. ``registered``.
    """
    drafts = [_draft(claim, evidence, registration(claim)) for claim in claims]
    verdicts: dict[int, Verdict] = {}
    for kind, unjudged in ((None, evidence.unjudged_claims), (MANIPULATION_CHECK, 0)):
        members = {index: draft for index, draft in enumerate(drafts) if draft[0].claim.kind == kind}
        size = len(members) + unjudged
        decisions = decide_family(
            [draft.claim for draft, _ in members.values()], [weighed for _, weighed in members.values()], unjudged
        )
        for (index, (draft, weighed)), decision in zip(members.items(), decisions, strict=True):
            if weighed is None or decision is None:
                verdicts[index] = replace(draft, family_size=size)
            else:
                verdicts[index] = _decided(draft, weighed, decision, size, evidence.declaration.bounds)
    return [verdicts[index] for index in range(len(drafts))]


def _draft(claim: Claim, evidence: StudyEvidence, registration: str) -> tuple[Verdict, WeighedEvidence | None]:
    """Returns an undecided verdict with its weighed numbers, or an INVALID one without."""
    draft = Verdict(
        claim, Outcome.INVALID, "", registration,
        settings=named_settings(claim, evidence), setup=setup_label(claim, evidence),
    )  # fmt: skip
    try:
        # Checks come first: a failed check is the reason, not its consequences for the numbers.
        checks = [checked(check, evidence) for check in claim.checks]
        failed = [f'the check "{check.text}" failed: {check.found}' for check in checks if not check.passed]
        try:
            points, dropped = compared_points(claim, evidence)
        except CannotDecide as why:
            raise CannotDecide("; ".join(failed) or why.reason, (), checks) from None
        if failed:
            raise CannotDecide("; ".join(failed), points, checks)
        terms = evidence.terms
        staged = stage(points, dropped, *((None, None) if terms is None else (terms.seeds, terms.design)))
        if same := pinned(staged.points, claim.scale):
            raise CannotDecide(same, points, checks)
        left_out = [f"{seed}" if why.step is None else f"{seed} (at step {why.step})" for seed, why in dropped.items()]
        notes = [f"seeds {', '.join(left_out)} diverged and were left out, as declared"] if dropped else []
        if len(staged.points) < LEAST_SEEDS:
            few = f"{len(staged.points)} seeds, and fewer than {LEAST_SEEDS} can show nothing at the 5 % level"
            raise CannotDecide("; ".join([few, *notes]), points, checks)
    except CannotDecide as why:
        shown = tuple(remarks(claim, evidence))
        return replace(draft, reason=why.reason, points=why.points, checks=why.checks, notes=shown), None
    except KymographError as error:
        return replace(draft, reason=str(error)), None
    draft = replace(
        draft,
        outcome=Outcome.INCONCLUSIVE,
        points=staged.points,
        checks=tuple(checks),
        notes=(*notes, *staged.notes, *remarks(claim, evidence)),
        interval_level=staged.level,
    )
    return draft, weigh(claim, np.array([point.value for point in staged.points]), staged.looks)


def _decided(
    draft: Verdict, weighed: WeighedEvidence, decision: Decision, family: int, declared_bounds: Mapping[str, Range]
) -> Verdict:
    """Returns the verdict with its outcome, and everything that describes the effect."""
    claim, points = draft.claim, draft.points
    values = np.array([point.value for point in points])
    left, right = (np.array([getattr(point, side) for point in points]) for side in ("left", "right"))
    scaled = np.array([on_scale(point, claim) for point in points])
    if claim.interaction is not None:  # a ratio of ratios may overflow, its logarithm does not
        left, right = scaled.T
    why, needed = reason(claim, decision, weighed, family)
    notes = list(draft.notes)
    if not decision.reachable and decision.outcome is Outcome.EQUIVALENT:
        notes.append(f"{draft.n} seeds could not have shown an effect at {claim.alpha:g} in a family of {family}")
    failing, bound = _failing(claim, points)
    if failing is not None and bound is not None:
        notes.append(failing_note(failing, draft.n, bound))
    bca = bca_interval(values)
    least, most = effect_bounds(claim, points, declared_bounds)

    def natural_interval(ends: Range) -> Range:
        low, high = (min(max(natural(claim, end), least), most) for end in ends)
        return low, high

    tests = weighed.bounds.equivalence > 0
    level = _equivalence_level(claim, draft.interval_level) if tests or claim.direction == "equal" else None
    return replace(
        draft,
        outcome=decision.outcome,
        reason=why,
        notes=tuple(notes),
        effect=natural(claim, float(values.mean())),
        interval=natural_interval(t_interval(values, draft.interval_level)),
        equivalence_interval=None if level is None else natural_interval(t_interval(values, level)),
        equivalence_level=level,
        bca=None if bca is None else natural_interval(bca),
        p=decision.p,
        p_t=float(weighed.t.direction),
        p_flip=float(weighed.flip.direction),
        hedges_g=_none_if_nan(hedges_g(values)),
        superiority=superiority(left, right),
        tost_p=float(weighed.t.equivalence) if tests else None,
        iqm=natural(claim, iqm(values)),
        improvement=probability_of_improvement(left, right),
        seeds_needed=needed,
        p_zero=decision.p_zero,
        p_margin=decision.p_margin,
        p_equivalence=decision.p_equivalence if tests else None,
        tost_flip_p=float(weighed.flip.equivalence) if tests else None,
        pairing_gain=_none_if_nan(pairing_gain(*scaled.T)) if isinstance(claim.right, Side) else None,
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


def _failing(claim: Claim, points: tuple[Point, ...]) -> tuple[tuple[int, ...] | None, float | None]:
    """Returns the seeds beyond the margin that a claim of absence allows, and the upper bound on their rate."""
    if claim.direction not in (*ABSENCES, "equal"):
        return None, None
    margin, sign = size_on_scale(claim, claim.margin), direction_sign(claim)

    def fails(value: float) -> bool:
        return abs(value) > margin if claim.direction == "equal" else sign * value < -margin

    seeds = tuple(point.seed for point in points if fails(point.value))
    return seeds, binomial_upper_bound(len(seeds), len(points), 1 - claim.alpha)


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
