"""Which numbers are compared: reduced series, the ranges that effects cannot leave, and maps of differences."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kymograph
from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.estimands import EVERYTHING, difference_map, effect_bounds, measure_bounds
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._claims.measures import measure
from kymograph._claims.verdict import Point, Verdict
from kymograph._errors import KymographError
from kymograph._runs.declaration import Declaration
from kymograph._runs.record import RunSeries
from kymograph._runs.store import Store
from kymograph._statistics.p_values import t_test
from tests.claims.test_family import FakeRun
from tests.studies.spiky import REFERENCE

SERIES = RunSeries(np.arange(4), np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 8.0], [2.0, 18.0]]), ("h_0", "h_1"))


@pytest.mark.parametrize(
    ("reduce", "site", "value"),
    [("last", "h_0", 2.0), ("first", "h_1", 2.0), ("growth", "last", 9.0), ("rises", "h_0", 2 / 3), ("max", "h_0", 3.0),
     ("min", "h_1", 2.0), ("mean", "h_0", 2.0), ("median", "h_1", 5.0), ("std", "h_0", math.sqrt(0.5)),
     ("depth slope", None, math.log(9.0))],
)  # fmt: skip
def test_a_series_becomes_one_number(reduce: str, site: str | None, value: float) -> None:
    run = FakeRun("a", 0, {}, series={"h": SERIES})
    assert measure(run, Measure("h", reduce, site)) == pytest.approx(value)


def test_a_series_asked_for_wrongly_is_named() -> None:
    run = FakeRun("a", 0, {"word": "x", "big": math.inf, "none": None}, series={"h": SERIES})
    for what, words in ((Measure("h", "last"), "name one of them"), (Measure("h", "last", "h_9"), "no site 'h_9'"),
                        (Measure("g", "last"), "no series 'g'"), (Measure("word"), "a string")):  # fmt: skip
        with pytest.raises(KymographError, match=words):
            measure(run, what)
    assert measure(run, Measure("big")) == math.inf and math.isnan(measure(run, Measure("none")))
    with pytest.raises(KymographError, match="cannot be reduced by 'sum'"):
        Measure("h", "sum")


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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return kymograph.run(REFERENCE, n_seeds=8, out=tmp_path_factory.mktemp("m"), quiet=True, engine="serial")


def test_a_map_has_the_mean_difference_and_a_p_value_no_smaller_than_the_lone_one(store: Store) -> None:
    differences = difference_map(store, "stream", "easy/no_clip", "easy/clip", log=True)
    left = np.log(store.series("stream").sel(arm="easy/no_clip").values)
    right = np.log(store.series("stream").sel(arm="easy/clip").values)
    np.testing.assert_allclose(differences.effect, (left - right).mean(0), atol=1e-6)
    assert differences.p.shape == differences.effect.shape == (5, 3)
    assert differences.sites == ("h_0", "h_1", "h_2") and differences.seeds == tuple(store.seeds)
    lone = np.array([[t_test((left - right)[:, step, site]) for site in range(1, 3)] for step in range(5)])
    assert (differences.p[:, 1:] >= lone - 1e-3).all()
    assert (differences.p[:, 0] == 1.0).all(), "both arms start from the same input"
    assert differences.first() == 0, "clipping acts from the start"


def test_an_arm_against_itself_never_differs(store: Store) -> None:
    differences = difference_map(store, "loss", "easy/clip", "easy/clip")
    assert differences.first() is None and differences.sites is None


def test_too_few_seeds_are_refused(store: Store) -> None:
    with pytest.raises(KymographError, match="5 seeds have both arms"):
        difference_map(store.select(seeds=store.seeds[:5]), "loss", "easy/clip", "easy/no_clip")
