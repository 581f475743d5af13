"""The whole selftest: its study of noise, directories that are judged, and all rows together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest

from kymograph._claims.design import Design
from kymograph._claims.verdict import Outcome, Verdicts
from kymograph._errors import KymographError
from kymograph._selftest import whole_path
from kymograph._selftest.whole_path import CLAIMS, REFERENCE, selftest, worst_limit
from kymograph._selftest.worlds import MOST_ROWS, RateBound, Row, Simulation, decide_at_looks
from kymograph._streams import fixed_seeds
from kymograph._studies.loading import STUDIES, load_study
from kymograph._sweep.compute import Workplace

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


class Nobody:
    def tick(self, steps: int) -> None: ...

    def say(self, text: str) -> None: ...


def numbers(seeds: list[int], **fields: float) -> list[list[float]]:
    study = load_study(REFERENCE)
    specs = study.specs(seeds, None, fields)
    results = study.train(specs, Workplace("cpu", Nobody()))
    return [[result.summary[name] for name in study.names] for result in results]  # type: ignore[misc]


def test_numbers_come_from_world_seed_and_arm() -> None:
    rows = numbers([42, 123]) + numbers([42, 123], world=1)
    assert len({tuple(row) for row in rows}) == 8, "two arms, two seeds, two worlds"
    assert numbers([42, 123]) == numbers([42, 123])


def test_the_effect_is_the_only_difference_it_makes() -> None:
    without, with_effect = numbers([42]), numbers([42], effect=2.0)
    assert without[0] == with_effect[0], "the control arm"
    assert [round(b - a, 12) for a, b in zip(without[1], with_effect[1], strict=True)] == [2.0] * CLAIMS


def test_it_is_in_no_list() -> None:
    assert "noise" not in STUDIES.parts()
    assert len(load_study(REFERENCE).claims()) == CLAIMS


def differences(world: int, effect: float, n: int) -> np.ndarray:
    """Returns what the directory's claims are about, (1, claims, n), without a directory."""
    study = load_study(REFERENCE)
    specs = study.specs(fixed_seeds(n), None, {"world": world, "effect": effect * np.sqrt(2)})
    results = study.train(specs, Workplace("cpu", Nobody()))
    values = np.array([[result.summary[f"x{index}"] for index in range(CLAIMS)] for result in results])
    control, treated = values.reshape(2, n, CLAIMS)
    return (treated - control).T[None]


@pytest.mark.parametrize("sizes", [(10,), (10, 12, 14)])
def test_a_directory_is_decided_as_a_simulated_world_of_its_numbers(sizes: tuple[int, ...]) -> None:
    design, claims = Design(sizes), load_study(REFERENCE).claims()
    seen = set()
    for world in range(3):
        found = whole_path.judged_at_looks(design, 1.2, world)
        simulated = decide_at_looks(claims, differences(world, 1.2, sizes[-1]), design)
        assert [[one is Outcome.SUPPORTED for one in look] for look in found] == [
            look.supported[0].tolist() for look in simulated
        ]
        seen |= {one for look in found for one in look}
    assert seen == {Outcome.SUPPORTED, Outcome.INCONCLUSIVE}


def test_every_design_is_a_row_and_is_followed() -> None:
    followed = []

    def follow(numbers: Iterable[int], title: str) -> Iterable[int]:
        followed.append(title)
        return numbers

    rows = list(whole_path.whole_path(Simulation(100), follow))
    assert [row.world for row in rows] == followed and all(row.passed for row in rows)
    assert [(row.kind, row.worlds) for row in rows] == [("error", 2), ("error", 2), ("power", 1)]
    assert rows[-1].supported > 0.5


@pytest.mark.parametrize("broken", ["invalid", "missing"])
def test_runs_that_cannot_be_judged_are_no_worlds_without_an_error(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    honest = whole_path.judge

    def judge(out: str) -> Verdicts:
        verdicts = honest(out)
        if broken == "missing":
            return Verdicts(verdicts.verdicts[:-1])
        object.__setattr__(verdicts[0], "outcome", Outcome.INVALID)
        return verdicts

    monkeypatch.setattr(whole_path, "judge", judge)
    with pytest.raises(KymographError, match="could not be judged" if broken == "invalid" else "4 of the selftest's"):
        whole_path.judged_at_looks(whole_path.FIXED, 0.0, 0)


def test_few_worlds_give_every_row_and_none_fails_by_chance() -> None:
    rows = list(selftest(100))
    assert [row for row in rows if not row.passed] == []
    assert {row.kind for row in rows} == {"error", "power", "limit", "cost"}
    labels = [(row.world, row.seeds.split(" of ")[-1], row.what) for row in rows]
    assert len(set(labels)) == len(labels), "every row is told apart from every other"
    assert 70 < len(rows) <= MOST_ROWS, "of which one in a thousand selftests fails by chance"
    for bound in (row.bound for row in rows):
        assert bound.most < 1 or bound.least > 0, "every row can fail"
    assert any(row.rate > 0 for row in rows if row.kind == "error"), "and the numbers are measured"


def test_the_worst_limit_is_the_highest_rate_among_the_known_limits() -> None:
    row = Row("a", "6", 100, 0.0, 0.0, 0.0, "SUPPORTED", 20, RateBound(most=0.3), "limit")
    others = [dataclasses.replace(row, count=90, kind=kind) for kind in ("power", "error", "cost")]
    worst = dataclasses.replace(row, world="b", count=30)
    assert worst_limit([row, worst, *others]) is worst


@pytest.mark.slow
def test_every_rate_is_within_its_bound() -> None:
    rows = list(selftest(10_000))
    assert [row for row in rows if not row.passed] == []
    assert worst_limit(rows).rate > 0.5, "what the documentation owns up to"
