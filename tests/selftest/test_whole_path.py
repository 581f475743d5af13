from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from kymograph.claims.design import Design
from kymograph.claims.verdict import Outcome, Verdicts
from kymograph.errors import KymographError
from kymograph.selftest import whole_path
from kymograph.selftest.whole_path import CLAIMS, REFERENCE
from kymograph.selftest.worlds import Simulation, decide_at_looks
from kymograph.streams import fixed_seeds
from kymograph.studies.loading import load_study
from kymograph.sweep.compute import Workplace
from tests.selftest.test_noise_study import Nobody

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


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
