"""The range that a claim's effect cannot leave, from the ranges of the compared numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.verdict import Point
from kymograph.runs.bounds import bounds_of

Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)
_INSIDE = (None, "last", "first", "mean", "median", "95th percentile", "min", "max")
"""Reductions of a series whose result lies among its values."""


def effect_bounds(claim: Claim, points: Sequence[Point], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the smallest and the largest possible effect; infinite where there is no limit.

    A difference of two accuracies lies in [-1, 1], an accuracy's difference from 0.1 in [-0.1, 0.9]. ``declared``
    holds the ranges that the study states; those of accuracies, probabilities and cosines are recognised by name.
    """
    columns = list(zip(*(point.parts or (point.left, point.right) for point in points), strict=True))
    sides = (claim.left, claim.right, *(claim.interaction or ()))
    ranges = [
        measure_bounds(side.measure, values, declared) if isinstance(side, Quantity) else (float(side), float(side))
        for side, values in zip(sides, columns, strict=True)
    ]
    compared = _ratio if claim.scale == "log ratio" else _difference
    effect = compared(ranges[0], ranges[1])
    return compared(effect, compared(ranges[2], ranges[3])) if claim.interaction is not None else effect


def measure_bounds(measure: Measure, values: Sequence[float], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the range that a measure cannot leave, given its values."""
    if measure.reduce == "rises":  # a share of measurements
        return 0.0, 1.0
    if measure.reduce not in _INSIDE:
        return EVERYTHING
    return bounds_of(measure.name, values, declared) or EVERYTHING


def _difference(left: Range, right: Range) -> Range:
    return left[0] - right[1], left[1] - right[0]


def _ratio(left: Range, right: Range) -> Range:
    """Returns the range of a ratio; numbers compared as a ratio are positive in every seed."""
    return max(left[0], 0.0) / right[1], left[1] / right[0] if right[0] > 0 else math.inf
