"""The decision itself: from one number per seed, a margin and a direction to an outcome. No runs, no files.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph.claims.claim import Claim
from kymograph.claims.design import PlannedLook
from kymograph.claims.hypotheses import Bounds, PValues, bounds_of, decided, direction_sign, p_values
from kymograph.claims.verdict import Outcome
from kymograph.statistics.alternatives import Alternative
from kymograph.statistics.multiplicity import holm
from kymograph.statistics.power import seeds_to_show_effect, seeds_to_show_equivalence
from kymograph.statistics.samples import moments
from kymograph.statistics.sign_flips import LEAST_SEEDS, sign_flip_p, smallest_p
from kymograph.statistics.t_tests import t_test


@dataclass(frozen=True)
class Evidence:
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


def weigh(claim: Claim, values: np.ndarray, looks: Sequence[PlannedLook] = ()) -> Evidence:
    """Returns the evidence on a claim from ``values`` (n,), each seed's difference (or log-ratio) left - right.

    ``looks`` are the looks of a sequential design reached so far; the last one uses all values, which are in the order
    of the registered seeds. Default: one look that may spend all of alpha.
    """
    oriented = direction_sign(claim) * np.asarray(values, dtype=np.float64)
    bounds = bounds_of(claim)
    stages = [_tests(oriented[: look.seeds], bounds) for look in looks or (PlannedLook(len(oriented), 1.0),)]
    shares = [look.share for look in looks] or [1.0]
    t, flip = stages[-1]
    spent = [
        min(1.0, min(max(pair) / share for pair, share in zip(kind, shares, strict=True)))
        for kind in zip(*(zip(*stage, strict=True) for stage in stages), strict=True)
    ]
    least_p = min(smallest_p(look.seeds) / look.share for look in looks) if looks else smallest_p(len(oriented))
    return Evidence(oriented, bounds, t, flip, PValues(*spent), least_p)


def _tests(oriented: np.ndarray, bounds: Bounds) -> tuple[PValues, PValues]:
    """Returns the p-values of the t test and of the sign-flip test."""
    student = functools.cache(lambda against, alternative: t_test(oriented, against, alternative))
    flips = functools.cache(lambda against, alternative: sign_flip_p(oriented, against, alternative))
    return p_values(bounds, student), p_values(bounds, flips)


def decide_family(
    claims: Sequence[Claim], evidence: Sequence[Evidence | None], unjudged: int = 0
) -> list[Decision | None]:
    """Returns the decisions on the claims of one family; None where there is no evidence.

    Args:
        claims: the claims.
        evidence: the evidence on each claim; None for one that cannot be decided, which still counts.
        unjudged: how many further claims the family has.
    """
    rest = [1.0] * unjudged
    both = [None if one is None else one.both for one in evidence]
    directions = [1.0 if one is None else float(one.direction) for one in both] + rest
    corrected = holm(directions)
    equivalences = holm([1.0 if one is None else float(one.equivalence) for one in both] + rest)
    zeros = holm([1.0 if one is None else float(one.zero) for one in both] + rest)
    found: list[Decision | None] = []
    for index, (claim, one, p) in enumerate(zip(claims, evidence, both, strict=True)):
        if one is None or p is None:
            found.append(None)
            continue
        found.append(
            Decision(
                _outcome(p, corrected[index], equivalences[index], claim.alpha),
                corrected[index],
                _with(directions, index, float(p.support)),
                equivalences[index],
                zeros[index],
                _with(directions, index, one.least_p) <= claim.alpha,
            )
        )
    return found


def _outcome(p: PValues, direction: float, equivalence: float, alpha: float) -> Outcome:
    """Returns SUPPORTED, REFUTED, EQUIVALENT or INCONCLUSIVE, from corrected p-values."""
    names = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.EQUIVALENT)
    reached = zip(names, decided(p, direction, equivalence, alpha), strict=True)
    return next((name for name, is_reached in reached if is_reached), Outcome.INCONCLUSIVE)


def can_decide(n: int, family: int, alpha: float, alternative: Alternative = "two-sided") -> bool:
    """Returns whether n seeds can reach alpha in the exact test, with the smallest p-value of the family.

    A direction needs the two-sided test, equivalence a one-sided one.
    """
    return smallest_p(n, alternative) * family <= alpha


def seeds_to_decide(evidence: Evidence, alpha: float, family: int) -> tuple[int | None, Outcome]:
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
