"""Worlds, their decisions and rows: whatever the arrays say, `decide_family` says of every world alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from kymograph._claims import decision as decide
from kymograph._claims.claim import Claim
from kymograph._claims.decision import Decided
from kymograph._claims.design import Design, PlannedLook
from kymograph._claims.verdict import Outcome
from kymograph._selftest.worlds import (
    LAWS,
    LEVEL,
    RateBound,
    Simulation,
    claim,
    decide_alone,
    decide_at_looks,
    decide_many,
    measured,
)


@pytest.mark.parametrize("law", LAWS)
def test_worlds_of_a_name_are_the_same_whatever_else_is_drawn(law: str) -> None:
    one = Simulation(50, seed=3).draw(law, 2, 6, name="a")
    assert one.shape == (50, 2, 6)
    np.testing.assert_array_equal(one, Simulation(50, seed=3).draw(law, 2, 6, name="a"))
    assert not np.allclose(one, Simulation(50, seed=3).draw(law, 2, 6, name="b"))
    assert not np.allclose(one, Simulation(50, seed=4).draw(law, 2, 6, name="a"))


@pytest.mark.parametrize("law", ["normal", "lognormal"])
def test_every_law_has_the_mean_zero(law: str) -> None:
    values = Simulation(200_000).draw(law, 2, name="mean")
    assert abs(values.mean()) < 5 * values.std() / np.sqrt(values.size)


def test_a_claim_has_its_direction_and_margin() -> None:
    assert (claim("not less", 0.5).direction, claim("not less", 0.5).margin) == ("not less", 0.5)


pytestmark = pytest.mark.usefixtures("shapes_unchecked")
FAMILY = [
    claim("greater"), claim("less"), claim("greater", 0.5), claim("not less", 0.5), claim("not greater", 1.0),
    claim("equal", 1.0), dataclasses.replace(claim("less", 0.25), equivalence_margin=1.0, alpha=0.1),
]  # fmt: skip


def judged(claims: Sequence[Claim], world: np.ndarray, looks: Sequence[PlannedLook] = ()) -> list[Outcome]:
    evidence = [decide.weigh(one, values, looks) for one, values in zip(claims, world, strict=True)]
    return [one.outcome for one in decide.decide_family(claims, evidence) if one is not None]


def told(found: Decided, world: int) -> list[Outcome]:
    flags = zip(found.supported[world], found.refuted[world], found.equivalent[world], strict=True)
    names = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.EQUIVALENT)
    return [next((name for name, flag in zip(names, one, strict=True) if flag), Outcome.INCONCLUSIVE) for one in flags]


def drawn(law: str, worlds: int, claims: int, n: int) -> np.ndarray:
    """Returns worlds with effects of every size; multiples of 1/4 have ties, also with the margins."""
    draw = np.random.default_rng([n, claims])
    values = draw.uniform(-2, 2, (worlds, claims, 1)) + draw.uniform(0.1, 1, (worlds, 1, 1)) * draw.standard_normal(
        (worlds, claims, n)
    )
    if law == "skewed":
        return np.exp(values) - 1
    return np.round(4 * values) / 4 if law == "ties" else values


@pytest.mark.parametrize("law", ["normal", "skewed", "ties"])
@pytest.mark.parametrize(("n", "count"), [(6, 1), (10, len(FAMILY)), (13, len(FAMILY)), (20, len(FAMILY))])
def test_families_are_decided_as_the_judge_decides_them(law: str, n: int, count: int) -> None:
    claims, values = FAMILY[-count:], drawn(law, 25 if count > 1 else 100, count, n)
    found = decide_many(claims, values)
    outcomes = [judged(claims, world) for world in values]
    assert [told(found, index) for index in range(len(values))] == outcomes
    assert {outcome for world in outcomes for outcome in world} >= ({*Outcome} - {Outcome.INVALID}), "all occur"


@pytest.mark.parametrize("law", ["normal", "ties"])
@pytest.mark.parametrize("sizes", [(6, 8, 10), (8, 12), (10, 15, 20)])
def test_looks_are_decided_as_the_judge_decides_them(law: str, sizes: tuple[int, ...]) -> None:
    design = Design(sizes)
    values = drawn(law, 20, len(FAMILY), sizes[-1])
    for size, found in zip(sizes, decide_at_looks(FAMILY, values, design), strict=True):
        looks = design.reached(size)
        outcomes = [judged(FAMILY, world[:, :size], looks) for world in values]
        assert [told(found, index) for index in range(len(values))] == outcomes


def test_a_claim_alone_is_a_family_of_one() -> None:
    values = drawn("normal", 60, 1, 8)[:, 0]
    for one in FAMILY:
        found = decide_alone(one, values)
        assert [told(found, index) for index in range(len(values))] == [judged([one], world[None]) for world in values]
        assert (found.anything == (found.supported | found.refuted | found.equivalent)).all()


def test_no_more_than_a_block_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = drawn("normal", 40, 3, 14)
    whole = decide_many(FAMILY[:3], values)
    monkeypatch.setattr("kymograph._selftest.worlds._BLOCK", 7)
    blocks = decide_many(FAMILY[:3], values)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("most", "worlds"), [(0.05, 100), (0.05, 10_000), (0.025, 2_000), (0.5, 300)])
def test_a_judge_at_its_bound_fails_by_chance_as_rarely_as_stated(most: float, worlds: int) -> None:
    bound = RateBound(most=most)
    first = next(count for count in range(worlds + 1) if not bound.holds(count, worlds))
    assert stats.binom.sf(first - 1, worlds, most) <= 1 - LEVEL < stats.binom.sf(first - 2, worlds, most)


def test_power_fails_if_it_is_below_by_more_than_chance() -> None:
    bound = RateBound(least=0.8)
    last = next(count for count in range(1000, -1, -1) if not bound.holds(count, 1000))
    assert stats.binom.cdf(last, 1000, 0.8) <= 1 - LEVEL < stats.binom.cdf(last + 1, 1000, 0.8)


def test_a_rate_is_found_out_once_there_are_enough_worlds() -> None:
    bound = RateBound(most=0.05)
    assert bound.holds(0, 1) and bound.holds(9, 100) and bound.holds(590, 10_000) and not bound.holds(600, 10_000)
    assert not RateBound(most=0.025).holds(320, 10_000)
    both = RateBound(least=0.14, most=0.19)
    assert [both.holds(count, 10_000) for count in (1200, 1670, 2100)] == [False, True, False]


def test_bounds_are_said_in_words() -> None:
    words = [str(bound) for bound in (RateBound(most=0.025), RateBound(least=0.78), RateBound(0.19, 0.14))]
    assert words == ["at most 2.5 %", "at least 78 %", "14 to 19 %"]


def test_a_world_counts_once_and_the_shares_are_of_all_verdicts() -> None:
    supported = np.array([[True, True], [False, True], [False, False], [False, False]])
    none = np.zeros_like(supported)
    row = measured("two claims", 10, Decided(supported, none, none), "SUPPORTED", supported, RateBound(most=0.6))
    assert (row.worlds, row.count, row.rate, row.supported, row.seeds) == (4, 2, 0.5, 0.375, "10")
    assert row.passed and row.kind == "error"
