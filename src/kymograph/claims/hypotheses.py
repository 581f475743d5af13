"""What each outcome of a claim would have to rule out, and the p-values of ruling it out.

Everything here is about the *turned* values: differences (or log-ratios) left - right of the seeds, with the sign that
makes positive ones speak for the claim. The same formulas serve one sample (floats) and thousands (arrays).
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
    """Where the outcomes of a claim begin, on the scale of the turned values."""

    support: float
    """The claim is supported beyond this; for "equal", within plus and minus this."""
    refute: float
    """The claim is refuted below this; for "equal", beyond plus and minus this."""
    equivalence: float
    """The effect is equivalent to none within plus and minus this; 0: nothing is."""
    equal: bool = False


class PValues(NamedTuple):
    """P-values of one test, or the larger ones of both: floats, or arrays over samples."""

    support: Any
    """Against what SUPPORTED must rule out; doubled, because support and refutation share alpha."""
    refute: Any
    """Against what REFUTED must rule out; doubled."""
    equivalence: Any
    """That the effect is as large as the equivalence margin, in either direction (two one-sided tests)."""
    zero: Any
    """That there is no effect at all, two-sided."""

    @property
    def direction(self) -> Any:
        """The smaller of support's and refutation's: the p-value of the claim."""
        return np.minimum(self.support, self.refute)


def direction_sign(claim: Claim) -> int:
    """Returns 1 if the claim says that left is larger (or equal), -1 if it says that it is smaller."""
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

    "equal" is supported by two one-sided tests within the margin and refuted by one beyond it on either side. With each
    at half of alpha, alpha bounds all errors: an effect at the upper margin is wrongly called smaller than it with half
    of alpha (without which it is called neither equal nor beyond the lower margin) and larger with the other half; one
    within the margins is wrongly called beyond either with half of alpha each.
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
