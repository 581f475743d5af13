"""Decides many families of claims at once: `decide.decide_family` on arrays.

Tests, hypotheses and the rule from p-values to an outcome are the judge's. Only the looks and Holm's correction are
implemented a second time, on arrays; tests check that every outcome is the judge's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kymograph.claims.claim import Claim
from kymograph.claims.design import Design, PlannedLook
from kymograph.claims.hypotheses import Bounds, PValues, bounds_of, decided, direction_sign, p_values
from kymograph.statistics.many_samples import ManySamples, holm_many

_BLOCK = 500
"""How many samples are tested at once, so that their subset tables fit the processor's cache."""


@dataclass(frozen=True)
class ManyDecisions:
    """The outcome of each claim in each world, as three masks (worlds, claims); in none of them: INCONCLUSIVE."""

    supported: np.ndarray
    refuted: np.ndarray
    equivalent: np.ndarray

    @property
    def directed(self) -> np.ndarray:
        """Where a direction was decided: SUPPORTED or REFUTED."""
        return self.supported | self.refuted

    @property
    def decided(self) -> np.ndarray:
        """Where anything was decided."""
        return self.directed | self.equivalent


def decide_many(claims: Sequence[Claim], values: np.ndarray, looks: Sequence[PlannedLook] = ()) -> ManyDecisions:
    """Returns the decisions on one family of claims in many worlds.

    Args:
        claims: the claims of the family.
        values: (worlds, claims, n) differences left - right, one per seed.
        looks: the looks of a sequential design reached so far; the last one uses all values.
    """
    found = [_weigh(claim, values[:, index], looks) for index, claim in enumerate(claims)]
    p = PValues(*(np.stack(columns, axis=1) for columns in zip(*found, strict=True)))
    alpha = np.array([claim.alpha for claim in claims])
    return ManyDecisions(*decided(p, holm_many(p.direction), holm_many(p.equivalence), alpha))


def decide_alone(claim: Claim, values: np.ndarray, looks: Sequence[PlannedLook] = ()) -> ManyDecisions:
    """Returns the decisions on a claim that is alone in its family, from ``values`` (worlds, n)."""
    return decide_many([claim], values[:, None], looks)


def decide_at_looks(claims: Sequence[Claim], values: np.ndarray, design: Design) -> list[ManyDecisions]:
    """Returns the decisions at every look of a design, as a user sees them at that look."""
    return [decide_many(claims, values[:, :, : look.seeds], design.reached(look.seeds)) for look in design.looks]


def _weigh(claim: Claim, values: np.ndarray, looks: Sequence[PlannedLook]) -> PValues:
    """Returns the claim's p-values in every world: the larger of both tests', divided by the looks' shares of alpha."""
    oriented, bounds = direction_sign(claim) * values, bounds_of(claim)
    stages = [
        _tests(oriented[:, : look.seeds], bounds, claim.alpha) for look in looks or (PlannedLook(values.shape[1], 1.0),)
    ]
    shares = [look.share for look in looks] or [1.0]
    spent = (
        np.minimum(1.0, np.min([p / share for p, share in zip(kind, shares, strict=True)], axis=0))
        for kind in zip(*stages, strict=True)
    )
    return PValues(*spent)


def _tests(oriented: np.ndarray, bounds: Bounds, alpha: float) -> PValues:
    """Returns the larger of the two tests' p-values for every sample; above alpha, only a lower bound on it."""
    student = functools.cache(ManySamples(oriented).t_p)

    @functools.cache
    def flips(against: float, alternative: Literal["greater", "less"]) -> np.ndarray:
        # Neither shares of alpha nor Holm's correction make a p-value smaller. Where Student's is above alpha, nothing
        # can be decided, so the slow sign-flip test is skipped.
        p = student(against, alternative).copy()
        near = np.flatnonzero(p <= alpha)
        for start in range(0, len(near), _BLOCK):
            block = near[start : start + _BLOCK]
            p[block] = ManySamples(oriented[block]).sign_flip_p(against, alternative)
        return p

    return PValues(*map(np.maximum, p_values(bounds, student), p_values(bounds, flips)))
