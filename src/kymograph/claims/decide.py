"""The decision itself: from one number per seed, a margin and a direction to an outcome. No runs, no files.

Two tests must agree, Student's t on the paired differences and the exact sign-flip test; their larger p-value is
corrected over the family by Holm. The two ways to be wrong (to support, to refute) share alpha: each side gets half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph.claims.claim import Claim
from kymograph.claims.verdict import Outcome
from kymograph.statistics.intervals import t_interval
from kymograph.statistics.multiplicity import holm
from kymograph.statistics.power import seeds_needed
from kymograph.statistics.sign_flips import sign_flip_p, smallest_p
from kymograph.statistics.t_tests import t_test


@dataclass(frozen=True)
class Evidence:
    """What one claim's numbers say before the family is looked at; ``values`` are turned so that the claim is up."""

    values: np.ndarray  # (n,) differences or log-ratios, positive where they speak for the claim
    support_at: float
    """The claim is supported beyond this."""
    refute_at: float
    """The claim is refuted below this."""
    margin: float
    p_t: float
    p_flip: float
    upward: bool
    """Whether the numbers speak for the claim rather than against it."""
    interval: tuple[float, float]
    inner: tuple[float, float]
    """The 90 % interval."""

    @property
    def p(self) -> float:
        """The larger of the two tests' p-values."""
        return max(self.p_t, self.p_flip)


def direction_sign(claim: Claim) -> int:
    """Returns 1 if the claim says that left is larger, -1 if it says that it is smaller."""
    return 1 if claim.direction in ("greater", "not less") else -1


def weigh(claim: Claim, values: np.ndarray) -> Evidence:
    """Returns what the differences (or log-ratios) left - right of the seeds say about the claim."""
    turned = direction_sign(claim) * np.asarray(values, dtype=np.float64)
    margin = math.log(claim.margin) if claim.scale == "log ratio" else claim.margin
    absence = claim.direction in ("not less", "not greater")
    support_at, refute_at = (-margin, -margin) if absence else (margin, 0.0)
    up_t, down_t = t_test(turned, support_at, "greater"), t_test(turned, refute_at, "less")
    up_flip, down_flip = sign_flip_p(turned, support_at, "greater"), sign_flip_p(turned, refute_at, "less")
    upward = max(up_t, up_flip) <= max(down_t, down_flip)
    t, flip = (up_t, up_flip) if upward else (down_t, down_flip)
    return Evidence(
        turned,
        support_at,
        refute_at,
        margin,
        min(1.0, 2 * t),
        min(1.0, 2 * flip),
        upward,
        t_interval(turned, 0.95),
        t_interval(turned, 0.90),
    )


def corrected(p_values: Sequence[float | None]) -> list[float]:
    """Returns Holm's p-values over a family; a claim that could not be decided still counts as one (p = 1)."""
    return holm([1.0 if p is None else p for p in p_values])


def outcome(evidence: Evidence, p_corrected: float, alpha: float) -> Outcome:
    """Returns SUPPORTED, REFUTED, EQUIVALENT or INCONCLUSIVE."""
    low, high = evidence.interval
    if p_corrected <= alpha and evidence.upward and low > evidence.support_at:
        return Outcome.SUPPORTED
    if p_corrected <= alpha and not evidence.upward and high < evidence.refute_at:
        return Outcome.REFUTED
    inner_low, inner_high = evidence.inner
    if evidence.margin > 0 and -evidence.margin < inner_low and inner_high < evidence.margin:
        return Outcome.EQUIVALENT
    return Outcome.INCONCLUSIVE


def can_decide(n: int, family: int, alpha: float) -> bool:
    """Says whether n seeds can reach alpha in the exact test when it is the smallest p-value of the family."""
    return smallest_p(n) * family <= alpha


def seeds_to_decide(evidence: Evidence, alpha: float, family: int) -> tuple[int | None, Outcome]:
    """Returns the seeds for 80 % power if the effect stays as it was seen, and what they would then show.

    Beyond the margin that is support, below zero refutation; between the two only equivalence can be shown, by a 90 %
    interval that lies within the margin. None: no number up to 1,000 would do.
    """
    mean = float(evidence.values.mean())
    if evidence.refute_at <= mean <= evidence.support_at and evidence.margin > 0:
        return seeds_needed(evidence.values, evidence.margin, 0.10), Outcome.EQUIVALENT
    aim, against = Outcome.SUPPORTED, evidence.support_at
    if mean < evidence.refute_at:
        aim, against = Outcome.REFUTED, evidence.refute_at
    needed = seeds_needed(evidence.values, against, alpha / family)
    while needed is not None and not can_decide(needed, family, alpha):
        needed += 1
    return needed, aim
