"""Which outcome a claim has: from one number per seed, a margin and a direction. No runs, no files.

Everything here is about the *oriented* values: each seed's difference (or log-ratio) left - right, with the sign that
makes positive values favour the claim. The formulas for hypotheses serve one sample (floats) and thousands (arrays).

Two tests must agree, Student's t on the paired differences and the exact sign-flip test; the larger p-value counts. The
two ways to be wrong about a direction (to support, to refute) share alpha: each gets half.

**Families.** Holm's correction is made once for each kind of decision, over every claim of the family; a claim for
which that decision is not possible counts with p = 1:

- *direction* (SUPPORTED or REFUTED), by twice the smaller one-sided p-value;
- *equivalence* (EQUIVALENT), by the larger of the two one-sided tests, whose null is an effect of at least the margin;
- *existence* (an effect that is not zero, whatever its size), two-sided.

The p-values of one kind are valid for the nulls of that kind, so Holm keeps the probability of one or more wrong
decisions of that kind in the family at or below alpha, however the claims depend on each other. (That includes giving a
real effect the wrong sign, for which the bound is proved for independent claims: Shaffer, 1980.) Each kind has its own
alpha, so for direction and equivalence together the bound is twice alpha.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from kymograph._claims.claim import ABSENCES, Claim
from kymograph._claims.design import PlannedLook
from kymograph._claims.verdict import Outcome, p_text
from kymograph._statistics.intervals import moments
from kymograph._statistics.p_values import LEAST_SEEDS, Alternative, holm, sign_flip_p, smallest_p, t_test
from kymograph._statistics.power import seeds_to_show_effect, seeds_to_show_equivalence

Tail = Callable[[float, Literal["greater", "less"]], Any]
"""The one-sided p-value that the mean is greater (or less) than a number: a float, or an array over samples."""
MOST_LISTED = 6
"""The most seeds that a note lists."""
_AIMS = {
    Outcome.SUPPORTED: "support it",
    Outcome.REFUTED: "refute it",
    Outcome.EQUIVALENT: "show that the effect is within the margin",
}
"""What more seeds would do if the true effect is the observed one."""


@dataclass(frozen=True)
class Bounds:
    """Where the outcomes of a claim begin, on the scale of the oriented values."""

    support: float
    """The claim is supported beyond this; for "equal", within plus and minus this."""
    refute: float
    """The claim is refuted below this; for "equal", beyond plus and minus this."""
    equivalence: float
    """The effect is equivalent to none within plus and minus this; 0: equivalence is not tested."""
    equal: bool = False


class PValues(NamedTuple):
    """P-values of one test, or the larger of both tests': floats, or arrays over samples."""

    support: Any
    """Of the null that SUPPORTED must reject; doubled, because support and refutation share alpha."""
    refute: Any
    """Of the null that REFUTED must reject; doubled."""
    equivalence: Any
    """Of the null that the effect is at least the equivalence margin, in either direction (two one-sided tests)."""
    zero: Any
    """Of the null that there is no effect, two-sided."""

    @property
    def direction(self) -> Any:
        """The smaller of ``support`` and ``refute``: the p-value of the claim."""
        return np.minimum(self.support, self.refute)

    @property
    def favours_claim(self) -> Any:
        """Whether the numbers favour the claim rather than contradict it."""
        return np.less_equal(self.support, self.refute)


class Decided(NamedTuple):
    """Which outcome p-values lead to: booleans, or masks over samples; if none is true, INCONCLUSIVE."""

    supported: Any
    refuted: Any
    equivalent: Any

    @property
    def directed(self) -> Any:
        """Whether a direction was decided: SUPPORTED or REFUTED."""
        return self.supported | self.refuted

    @property
    def anything(self) -> Any:
        """Whether anything was decided."""
        return self.directed | self.equivalent


def direction_sign(claim: Claim) -> int:
    """Returns -1 if the claim is "less" or "not greater", otherwise 1."""
    return -1 if claim.direction in ("less", "not greater") else 1


def size_on_scale(claim: Claim, size: float) -> float:
    """Returns a margin on the scale of the values: its logarithm for a ratio."""
    return math.log(size) if claim.scale == "log ratio" else size


def outcome_bounds(claim: Claim) -> Bounds:
    """Returns where the claim's outcomes begin."""
    margin = size_on_scale(claim, claim.margin)
    if claim.direction == "equal":
        return Bounds(margin, margin, 0.0, equal=True)
    within = claim.margin if claim.equivalence_margin is None else claim.equivalence_margin
    equivalence = size_on_scale(claim, within)
    if claim.direction in ABSENCES:
        return Bounds(-margin, -margin, equivalence)
    return Bounds(margin, 0.0, equivalence)


def p_values(bounds: Bounds, tail: Tail) -> PValues:
    """Returns the p-values of a claim's outcomes from one-sided tests.

    "equal" is supported by two one-sided tests within the margin, and refuted by one beyond it on either side. With
    each at half of alpha, alpha bounds all errors. An effect at the upper margin is wrongly called smaller (equal, or
    beyond the lower margin) with probability at most alpha / 2, and larger with at most alpha / 2. An effect within the
    margins is wrongly called beyond one of them with at most alpha / 2 each.
    """
    margin = bounds.support
    if bounds.equal:
        support = np.maximum(tail(-margin, "greater"), tail(margin, "less"))
        refute = np.minimum(tail(margin, "greater"), tail(-margin, "less"))
    else:
        support, refute = tail(bounds.support, "greater"), tail(bounds.refute, "less")
    none = np.ones_like(support)
    equivalence = none
    if bounds.equivalence > 0:
        equivalence = np.maximum(tail(-bounds.equivalence, "greater"), tail(bounds.equivalence, "less"))
    zero = np.minimum(tail(0.0, "greater"), tail(0.0, "less"))
    return PValues(
        np.minimum(none, 2 * support), np.minimum(none, 2 * refute), equivalence, np.minimum(none, 2 * zero)
    )  # fmt: skip


def decided(p: PValues, direction: Any, equivalence: Any, alpha: Any) -> Decided:
    """Returns the outcomes at ``alpha``; a direction comes before equivalence.

    ``direction`` and ``equivalence`` are those of ``p``, corrected over the family.
    """
    directed = np.less_equal(direction, alpha)
    equivalent = ~directed & np.less_equal(equivalence, alpha)
    return Decided(directed & p.favours_claim, directed & ~p.favours_claim, equivalent)


@dataclass(frozen=True)
class WeighedEvidence:
    """The evidence on one claim, before the correction over its family."""

    values: np.ndarray  # (n,) differences or log-ratios, positive where they favour the claim
    bounds: Bounds
    t: PValues
    """Student's p-values."""
    flip: PValues
    """The sign-flip test's p-values."""
    both: PValues
    """The larger of the two tests' p-values; under a sequential design, divided by the looks' shares of alpha."""
    least_p: float
    """The smallest two-sided p-value that this number of seeds and looks can give."""

    @property
    def p(self) -> float:
        """The p-value of the claim's direction."""
        return float(self.both.direction)


@dataclass(frozen=True)
class Decision:
    """The decision on one claim of a family; all p-values are corrected."""

    outcome: Outcome
    p: float
    p_margin: float
    """The p-value that the effect is not beyond the margin in the claimed direction; for "equal", not within it."""
    p_equivalence: float
    p_zero: float
    reachable: bool
    """Whether this number of seeds could have shown an effect, given the rest of the family."""

    def exists(self, alpha: float) -> bool:
        """Returns whether there is an effect of any size."""
        return self.p_zero <= alpha


def weigh(claim: Claim, values: np.ndarray, looks: Sequence[PlannedLook] = ()) -> WeighedEvidence:
    """Returns the evidence on a claim from ``values`` (n,), each seed's difference (or log-ratio) left - right.

    ``looks`` are the looks of a sequential design reached so far; the last one uses all values, which are in the order
    of the registered seeds. Default: one look that may spend all of alpha.
    """
    oriented = direction_sign(claim) * np.asarray(values, dtype=np.float64)
    bounds = outcome_bounds(claim)
    stages = [_tests(oriented[: look.seeds], bounds) for look in looks or (PlannedLook(len(oriented), 1.0),)]
    shares = [look.share for look in looks] or [1.0]
    t, flip = stages[-1]
    # Both tests must agree, so the larger p-value counts; a look spends its share of alpha, and the best look counts.
    larger = [[max(pair) for pair in zip(*stage, strict=True)] for stage in stages]  # (look, kind of p-value)
    spent = [
        min(1.0, min(p / share for p, share in zip(of_kind, shares, strict=True)))
        for of_kind in zip(*larger, strict=True)
    ]
    least_p = min(smallest_p(look.seeds) / look.share for look in looks) if looks else smallest_p(len(oriented))
    return WeighedEvidence(oriented, bounds, t, flip, PValues(*spent), least_p)


def _tests(oriented: np.ndarray, bounds: Bounds) -> tuple[PValues, PValues]:
    """Returns the p-values of the t test and of the sign-flip test."""
    student = functools.cache(lambda against, alternative: t_test(oriented, against, alternative))
    flips = functools.cache(lambda against, alternative: sign_flip_p(oriented, against, alternative))
    return p_values(bounds, student), p_values(bounds, flips)


def decide_family(
    claims: Sequence[Claim], evidence: Sequence[WeighedEvidence | None], unjudged: int = 0
) -> list[Decision | None]:
    """Returns the decisions on the claims of one family; None where there is no evidence.

    Args:
        claims: the claims.
        evidence: the evidence on each claim; None for one that cannot be decided, which still counts.
        unjudged: how many further claims the family has.
    """
    rest = [1.0] * unjudged
    both = [None if weighed is None else weighed.both for weighed in evidence]
    directions = [1.0 if p is None else float(p.direction) for p in both] + rest
    corrected = holm(directions)
    equivalences = holm([1.0 if p is None else float(p.equivalence) for p in both] + rest)
    zeros = holm([1.0 if p is None else float(p.zero) for p in both] + rest)
    decisions: list[Decision | None] = []
    for index, (claim, weighed) in enumerate(zip(claims, evidence, strict=True)):
        if weighed is None:
            decisions.append(None)
            continue
        decisions.append(
            Decision(
                _outcome(weighed.both, corrected[index], equivalences[index], claim.alpha),
                corrected[index],
                _with(directions, index, float(weighed.both.support)),
                equivalences[index],
                zeros[index],
                _with(directions, index, weighed.least_p) <= claim.alpha,
            )
        )
    return decisions


def _outcome(p: PValues, direction: float, equivalence: float, alpha: float) -> Outcome:
    """Returns SUPPORTED, REFUTED, EQUIVALENT or INCONCLUSIVE, from corrected p-values; INVALID is the judge's."""
    names = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.EQUIVALENT)
    reached = zip(names, decided(p, direction, equivalence, alpha), strict=True)
    return next((name for name, is_reached in reached if is_reached), Outcome.INCONCLUSIVE)


def can_decide(n: int, family: int, alpha: float, alternative: Alternative = "two-sided") -> bool:
    """Returns whether n seeds can reach alpha in the exact test, with the smallest p-value of the family.

    A direction needs the two-sided test, equivalence a one-sided one.
    """
    return smallest_p(n, alternative) * family <= alpha


def seeds_to_decide(evidence: WeighedEvidence, alpha: float, family: int) -> tuple[int | None, Outcome]:
    """Returns the seeds needed for 80 % power if the true effect is the observed one, and what they would show.

    Both tests count, corrected as for the smallest p-value of the family. An effect beyond the margin would be
    SUPPORTED, one below zero REFUTED; between the two, only equivalence can be shown. None: more than 1,000 seeds.
    """
    mean, sd, _ = moments(evidence.values)
    bounds, level = evidence.bounds, alpha / family
    if bounds.equal:
        if abs(mean) < bounds.support:
            return _needed(mean, bounds.support, sd, level / 2, family, alpha), Outcome.SUPPORTED
        return _needed(abs(mean) - bounds.refute, None, sd, level, family, alpha), Outcome.REFUTED
    if mean > bounds.support:
        return _needed(mean - bounds.support, None, sd, level, family, alpha), Outcome.SUPPORTED
    if mean < bounds.refute:
        return _needed(bounds.refute - mean, None, sd, level, family, alpha), Outcome.REFUTED
    if bounds.equivalence > 0:
        return _needed(mean, bounds.equivalence, sd, level, family, alpha), Outcome.EQUIVALENT
    return None, Outcome.INCONCLUSIVE


def _needed(effect: float, margin: float | None, sd: float, level: float, family: int, alpha: float) -> int | None:
    """Returns the seeds needed to show the effect, or that it lies within the margin, and to reach alpha."""
    if sd == 0:
        needed = LEAST_SEEDS if (effect > 0 if margin is None else abs(effect) < margin) else None
    elif margin is None:
        needed = seeds_to_show_effect(effect / sd, level)
    else:
        needed = seeds_to_show_equivalence(effect / sd, margin / sd, level)
    while needed is not None and not can_decide(needed, family, alpha):
        needed += 1
    return needed


def _with(p_values: Sequence[float], index: int, p: float) -> float:
    """Returns ``p`` corrected by Holm, in place of the family's p-value at ``index``."""
    return holm([*p_values[:index], p, *p_values[index + 1 :]])[index]


def reason(claim: Claim, decision: Decision, evidence: WeighedEvidence, family: int) -> tuple[str, int | None]:
    """Returns why the claim has its outcome, and the seeds needed to decide it if it is INCONCLUSIVE."""
    if decision.outcome is not Outcome.INCONCLUSIVE:
        return _why_decided(claim, decision, evidence, family), None
    if not evidence.values.any():
        return "every difference is zero", None
    needed, aim = seeds_to_decide(evidence, claim.alpha, family)
    if needed is None:
        words = "no number of seeds up to 1,000 would decide it"
    else:
        words = f"{needed:,} seeds needed for 80 % power to {_AIMS[aim]}"
    return f"{_open(claim, decision, evidence, family)}; {words}", needed


def failing_note(seeds: Sequence[int], n: int, bound: float) -> str:
    """Returns how many and which seeds are beyond the margin, and the bound on their rate."""
    if len(seeds) == n:
        return f"{n} of {n} seeds fail"
    more = ", ..." if len(seeds) > MOST_LISTED else ""
    listed = f": {', '.join(map(str, seeds[:MOST_LISTED]))}{more}" if seeds else ""
    return f"{len(seeds)} of {n} seeds fail{listed} (rate at most {100 * bound:.0f} %)"


def margin_text(claim: Claim, size: float | None = None) -> str:
    """Returns a margin as effects are printed: a ratio with a multiplication sign."""
    size = claim.margin if size is None else size
    return f"×{size:g}" if claim.scale == "log ratio" else f"{size:g}"


def _why_decided(claim: Claim, decision: Decision, evidence: WeighedEvidence, family: int) -> str:
    margin = margin_text(claim)
    if decision.outcome is Outcome.SUPPORTED:
        within = claim.direction in ABSENCES or claim.direction == "equal"
        return f"{claim.direction} within {margin}" if within else f"beyond the margin of {margin}"
    if decision.outcome is Outcome.REFUTED:
        return _refuted(claim, decision, evidence)
    margin = margin_text(claim, claim.equivalence_margin)
    if decision.exists(claim.alpha):
        return f"the effect is real but smaller than the margin of {margin} ({_p(decision.p_zero)} against zero)"
    small = f"within the margin of {margin} by both tests"
    if evidence.t.zero > claim.alpha:
        return small
    # The interval excludes zero, so a reader expects an effect.
    uncorrected = _uncorrected(float(evidence.both.zero), family)
    return f"{small}; an effect of any size is not shown ({_p(decision.p_zero)} against zero{uncorrected})"


def _refuted(claim: Claim, decision: Decision, evidence: WeighedEvidence) -> str:
    """Returns why a claim is refuted: any effect the other way refutes "greater" and "less", however small."""
    if claim.direction not in ("greater", "less"):
        return f"beyond the margin of {margin_text(claim)}"
    words = "the effect goes the other way"
    if decision.p_equivalence <= claim.alpha:
        return f"{words}, though within the margin of {margin_text(claim, claim.equivalence_margin)}"
    if -evidence.values.mean() < evidence.bounds.support:
        return f"{words}, though its estimate is within the margin of {margin_text(claim)}"
    return words


def _open(claim: Claim, decision: Decision, evidence: WeighedEvidence, family: int) -> str:
    """Returns why nothing could be decided."""
    if not decision.reachable:
        return f"{len(evidence.values)} seeds cannot reach {claim.alpha:g} in a family of {family}"
    one_sided = claim.direction in ("greater", "less")
    # A claim of absence or equality has one limit, the margin, so its p-value is that of the side the effect is on.
    p = decision.p_margin if one_sided and evidence.values.mean() > 0 else decision.p
    other_way = one_sided and evidence.values.mean() < 0
    against = f"{p_text(p)} {'for the other direction' if other_way else 'against the margin'}"
    # The interval is not corrected: it may lie beyond the limit that the corrected p-value does not exclude.
    uncorrected = _uncorrected(evidence.p, family) if evidence.t.direction <= claim.alpha else ""
    if decision.exists(claim.alpha):
        smaller = one_sided and 0 < evidence.values.mean() < evidence.bounds.support
        how = "but smaller than" if smaller else "but uncertain against"
        numbers = f"{_p(decision.p_zero)} against zero, {against}{uncorrected}"
        if other_way:
            return f"the effect is real and goes the other way, but too uncertain to refute the claim ({numbers})"
        return f"the effect is real {how} the margin of {margin_text(claim)} ({numbers})"
    return f"too uncertain (p = {against}{uncorrected})" if uncorrected else "too uncertain"


def _uncorrected(p: float, family: int) -> str:
    """Returns a p-value before Holm's correction, as a continuation; empty if there was nothing to correct."""
    return f", {p_text(p)} before correction for {family} claims" if family > 1 else ""


def _p(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
