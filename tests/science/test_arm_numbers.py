"""The table of a tuned study's arms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kymograph.experiments.running import sweep
from kymograph.experiments.stages import SweepOptions
from kymograph.rounding import estimate_text
from kymograph.runs.store import Store
from kymograph.studies.study import Study
from kymograph_studies.published import _sibling, arm_numbers
from tests.studies.bowl import REFERENCE


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Study, Store]:
    done = sweep(REFERENCE, [1, 2, 3, 4], SweepOptions(out=tmp_path, engine="serial", quiet=True),
                 arms=["slow", "fast", "edge"])  # fmt: skip
    monkeypatch.setattr(type(done.study), "contrasts", {"to slow": "slow"})
    return done.study, done.store.finished


def cells(text: str, arm: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {arm} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_differences_are_taken_by_seed_with_students_interval(swept: tuple[Study, Store]) -> None:
    study, store = swept
    text = arm_numbers(study, store.runs)
    assert "loss to slow" in text.splitlines()[2]
    loss = {(run.arm, run.seed): run.summary["loss"] for run in store}
    apart = np.array([loss["fast", seed] - loss["slow", seed] for seed in (1, 2, 3, 4)])
    half = stats.t.ppf(0.975, 3) * apart.std(ddof=1) / 2
    assert cells(text, "fast")[4] == estimate_text(apart.mean(), (apart.mean() - half, apart.mean() + half))
    assert cells(text, "slow")[4] == "", "an arm does not differ from itself"


def test_chosen_values_are_shown_and_those_at_an_edge_marked(swept: tuple[Study, Store]) -> None:
    text = arm_numbers(swept[0], swept[1].runs)
    assert cells(text, "slow")[2] == "0.03" and cells(text, "edge")[2] == "[0.3]"
    assert "at the edge of its grid" in text
    without = [run for run in swept[1] if run.arm != "edge"]
    assert "at the edge of its grid" not in arm_numbers(swept[0], without)


def test_an_arm_that_is_not_there_is_not_compared_with(swept: tuple[Study, Store]) -> None:
    text = arm_numbers(swept[0], [run for run in swept[1] if run.arm == "fast"])
    assert cells(text, "fast")[4] == ""


@pytest.mark.parametrize(("arm", "found"), [
    ("mlp/dfa", "mlp/bp"), ("mlp/kp/decay", "mlp/bp"), ("mlp/bp", ""), ("bp", ""), ("dfa", "bp"),
])  # fmt: skip
def test_an_arm_is_compared_within_its_group(arm: str, found: str) -> None:
    assert _sibling(arm, "bp", {"mlp/bp": 0, "conv/bp": 0}) == found
