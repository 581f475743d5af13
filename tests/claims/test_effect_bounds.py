from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.estimands import EVERYTHING, effect_bounds, measure_bounds
from kymograph.claims.evidence import StudyEvidence
from kymograph.claims.family import decide_claims
from kymograph.claims.verdict import Point, Verdict
from kymograph.runs.declaration import Declaration
from tests.claims.test_family import FakeRun

LEFT = [1.0, 0.999, 0.99, 0.998, 0.8, 0.997, 0.995, 0.2]
RIGHT = [0.0, 0.01, 0.0, 0.0, 0.01, 0.02, 0.0, 0.0]


def judged(name: str, right: str | float = "b", *, scale: str = "difference", **bounds: tuple[float, float]) -> Verdict:
    margin = 1.1 if scale == "ratio" else 0.1
    claim = Claim.compare(name, "a", ">", right, scale=scale, margin=margin)  # type: ignore[arg-type]
    arms = {"a": LEFT, "b": [value + 0.001 for value in RIGHT]}
    runs = [FakeRun(arm, seed, {name: x}) for arm, values in arms.items() for seed, x in enumerate(values)]
    (verdict,) = decide_claims(
        [claim], StudyEvidence(runs, declaration=Declaration("s", bounds=bounds)), lambda _: "post hoc"
    )
    return verdict


def test_the_interval_of_a_difference_of_accuracies_ends_at_one() -> None:
    """It used to end at 1.1, which no difference of two accuracies can be."""
    free, bounded = judged("score"), judged("test_accuracy")
    assert free.interval is not None and bounded.interval is not None and bounded.equivalence_interval is not None
    assert free.interval[1] > 1.0 and bounded.interval == (free.interval[0], 1.0)
    assert bounded.equivalence_interval[1] <= 1.0
    assert judged("score", score=(0.0, 1.0)).interval == bounded.interval, "what the study declares counts as well"
    assert (free.outcome, free.p, free.effect) == (bounded.outcome, bounded.p, bounded.effect), "tests are not cut"


def test_against_a_number_the_bounds_are_moved_or_divided() -> None:
    assert judged("accuracy", 0.1).interval[1] == pytest.approx(0.9)  # type: ignore[index]
    ratio = judged("accuracy", 0.5, scale="ratio").interval
    assert ratio is not None and ratio[1] == 2.0 and judged("score", 0.5, scale="ratio").interval[1] > 2.0  # type: ignore[index]


UNIT = st.floats(0.0, 1.0)


@given(st.lists(st.tuples(UNIT, UNIT), min_size=4, max_size=4))
def test_bounds_are_the_extremes_over_all_corners(pairs: list[tuple[float, float]]) -> None:
    """A second way: a difference of differences is extreme where every number is at an end of its range."""
    ranges = dict(zip("abcd", (tuple(sorted(pair)) for pair in pairs), strict=True))
    sides = [Side("arm", Measure(name)) for name in "abcd"]
    claim = replace(CLAIM, left=sides[0], right=sides[1], interaction=(sides[2], sides[3]))
    corners = [a - b - (c - d) for a, b, c, d in itertools.product(*ranges.values())]
    middle = tuple(sum(pair) / 2 for pair in ranges.values())
    inside = [min(max(value, low), high) for value, (low, high) in zip(middle, ranges.values(), strict=True)]
    found = effect_bounds(claim, [Point(0, 0.0, 0.0, 0.0, tuple(inside))], ranges)
    assert found == pytest.approx((min(corners), max(corners)))


CLAIM = Claim.compare("x", "a", ">", "b", scale="difference")


def test_what_a_series_is_reduced_to_decides_whether_its_range_counts() -> None:
    assert measure_bounds(Measure("accuracy", "last"), [0.5]) == (0.0, 1.0)
    assert measure_bounds(Measure("accuracy", "growth"), [0.5]) == EVERYTHING, "a ratio of accuracies"
    assert measure_bounds(Measure("loss", "rises"), [0.5]) == (0.0, 1.0), "a share of measurements"
    assert measure_bounds(Measure("loss", "last"), [0.5]) == (-math.inf, math.inf)
    ratio = Claim.compare("accuracy", "a", ">", "b")
    assert effect_bounds(ratio, [Point(0, 0.5, 0.5, 0.0)]) == (0.0, math.inf)
