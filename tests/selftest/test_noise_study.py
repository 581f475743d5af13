from __future__ import annotations

from kymograph.selftest.whole_path import CLAIMS, REFERENCE
from kymograph.studies.loading import STUDIES, load_study
from kymograph.sweep.compute import Workplace


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
