"""Looks at a growing number of seeds, and what they may spend."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph._claims import decision as decide
from kymograph._claims.design import Design, PlannedLook, completed, stage
from kymograph._claims.verdict import Point
from kymograph._errors import KymographError
from kymograph._statistics.p_values import sign_flip_p, t_test
from tests.studies.tossing import claim

sizes = st.lists(st.integers(6, 60), min_size=1, max_size=6, unique=True).map(lambda found: tuple(sorted(found)))


@given(sizes)
def test_the_looks_spend_all_of_alpha_and_no_more(found: tuple[int, ...]) -> None:
    design = Design(found)
    assert sum(look.share for look in design.looks) == pytest.approx(1.0)
    assert [look.seeds for look in design.looks] == list(found) and all(look.share > 0 for look in design.looks)
    again = Design.from_json(json.loads(json.dumps(design.to_json())), range(found[-1]))
    assert again == design


@pytest.mark.parametrize("bad", [(), (10, 10), (20, 10), (3, 10), tuple(range(10, 40, 2))])
def test_looks_that_make_no_sense_are_refused(bad: tuple[int, ...]) -> None:
    with pytest.raises(KymographError):
        Design(bad)


def test_a_forged_share_is_no_design() -> None:
    content = Design((10, 20)).to_json()
    content["looks"][0]["share"] = 0.9
    with pytest.raises(ValueError, match="not those of a sequential design"):
        Design.from_json(content, range(20))


def test_the_evidence_of_several_looks_is_the_smallest_quotient() -> None:
    values = np.random.default_rng(1).normal(0.8, 1.0, 15)
    looks = Design((6, 10, 15)).looks
    found = decide.weigh(claim("x"), values, looks)

    def larger(n: int) -> float:
        tests = (t_test(values[:n], 0.0, "greater"), sign_flip_p(values[:n], 0.0, "greater"))
        return min(1.0, 2 * max(tests))

    assert found.both.support == pytest.approx(min(1.0, *(larger(look.seeds) / look.share for look in looks)))
    assert found.t.support == pytest.approx(min(1.0, 2 * t_test(values, 0.0, "greater")))
    assert found.least_p == pytest.approx(min(2 / 2**look.seeds / look.share for look in looks))


def test_one_look_is_the_fixed_design() -> None:
    values = np.random.default_rng(2).normal(0.5, 1.0, 12)
    fixed, one = decide.weigh(claim("x"), values), decide.weigh(claim("x"), values, Design((12,)).looks)
    assert fixed.both == one.both and fixed.least_p == one.least_p


def test_a_look_counts_when_all_its_seeds_are_there() -> None:
    seeds, design = [5, 3, 9, 1, 7, 2, 8, 4, 6, 0, 11, 10], Design((6, 9, 12))
    assert completed(set(seeds[:5]) | {0}, seeds, design) == ()
    assert [look.seeds for look in completed(set(seeds[:8]), seeds, design)] == [6]
    assert len(completed(set(seeds), seeds, design)) == 3


def test_points_are_those_of_the_last_complete_look_in_registered_order() -> None:
    seeds, design = [5, 3, 9, 1, 7, 2, 8, 4, 6, 0], Design((6, 10))
    points = [Point(seed, float(seed), 0.0, float(seed)) for seed in sorted(seeds[:8])]
    staged = stage(points, (), seeds, design)
    assert [point.seed for point in staged.points] == seeds[:6]
    assert staged.looks == (PlannedLook(6, 0.6),) and staged.level == pytest.approx(1 - 0.05 * 0.6)
    assert staged.notes == ("2 seeds wait for the look at 10",)


def test_a_seed_left_out_as_declared_still_completes_its_look() -> None:
    seeds, design = list(range(10)), Design((7, 10))
    points = [Point(seed, 1.0, 0.0, 1.0) for seed in range(7) if seed != 3]
    staged = stage(points, [3], seeds, design)
    assert len(staged.points) == 6 and staged.looks == (PlannedLook(6, 0.7),)


def test_without_a_registration_all_points_count() -> None:
    points = [Point(seed, 1.0, 0.0, 1.0) for seed in range(8)]
    assert stage(points, (), None, None).points == tuple(points)
    assert stage(points, (), range(10), Design((10,))).looks == ()
