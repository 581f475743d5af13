"""The simulated decision is the judge's own: whatever the arrays say, `decide_family` says of every world alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from kymograph.claims import decision as decide
from kymograph.claims.claim import Claim
from kymograph.claims.design import Design, PlannedLook
from kymograph.claims.verdict import Outcome
from kymograph.selftest.worlds import ManyDecisions, claim, decide_alone, decide_at_looks, decide_many

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
FAMILY = [
    claim("greater"), claim("less"), claim("greater", 0.5), claim("not less", 0.5), claim("not greater", 1.0),
    claim("equal", 1.0), dataclasses.replace(claim("less", 0.25), equivalence_margin=1.0, alpha=0.1),
]  # fmt: skip


def judged(claims: Sequence[Claim], world: np.ndarray, looks: Sequence[PlannedLook] = ()) -> list[Outcome]:
    evidence = [decide.weigh(one, values, looks) for one, values in zip(claims, world, strict=True)]
    return [one.outcome for one in decide.decide_family(claims, evidence) if one is not None]


def told(found: ManyDecisions, world: int) -> list[Outcome]:
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
        assert (found.decided == (found.supported | found.refuted | found.equivalent)).all()


def test_no_more_than_a_block_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = drawn("normal", 40, 3, 14)
    whole = decide_many(FAMILY[:3], values)
    monkeypatch.setattr("kymograph.selftest.worlds._BLOCK", 7)
    blocks = decide_many(FAMILY[:3], values)
    for one, other in zip(vars(whole).values(), vars(blocks).values(), strict=True):
        np.testing.assert_array_equal(one, other)
