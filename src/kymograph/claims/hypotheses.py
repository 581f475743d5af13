"""The null hypothesis that each outcome of a claim must reject, and its p-value.

Everything here is about the *oriented* values: each seed's difference (or log-ratio) left - right, with the sign that
makes positive values favour the claim. The same formulas serve one sample (floats) and thousands (arrays).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from kymograph.claims.claim import ABSENCES, Claim

Tail = Callable[[float, Literal["greater", "less"]], Any]
"""The one-sided p-value that the mean is greater (or less) than a number: a float, or an array over samples."""


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


def direction_sign(claim: Claim) -> int:
    """Returns -1 if the claim is "less" or "not greater", otherwise 1."""
    return -1 if claim.direction in ("less", "not greater") else 1


def size_on_scale(claim: Claim, size: float) -> float:
    """Returns a margin on the scale of the values: its logarithm for a ratio."""
    return math.log(size) if claim.scale == "log ratio" else size


def bounds_of(claim: Claim) -> Bounds:
    """Returns where the claim's outcomes begin."""
    margin = size_on_scale(claim, claim.margin)
    if claim.direction == "equal":
        return Bounds(margin, margin, 0.0, equal=True)
    own = claim.margin if claim.equivalence_margin is None else claim.equivalence_margin
    equivalence = size_on_scale(claim, own)
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
