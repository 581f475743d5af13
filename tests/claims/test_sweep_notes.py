"""What the user is told before and after a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph as ky
from kymograph._claims.sweep_notes import same_in_all_seeds
from kymograph._experiments.stages import StageResult
from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.cli.command import call
from tests.records import write_record

STUDY = """
import kymograph as ky

@ky.study(question="?", arms={"a": {}, "b": {"shift": 1.0}},
          claims=[ky.Claim.compare("NAME", "b", ">", "a", margin=1.1)])
def noted_study(run, *, lr: float = 0.1, shift: float = 0.0):
    run.summary(other=1.0)
    return {"m": 1.0 + shift + run.seed / 1000}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "noted.py"
    path.write_text(STUDY.replace("NAME", "mm"))
    return path


def run(study: Path, *more: str) -> int:
    return call("run", str(study), "--n-seeds", "6", "--engine", "serial", "--dir", str(study.parent / "runs"), *more)


def test_a_number_that_no_run_returned_is_pointed_out(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(study) == 0
    error = capsys.readouterr().err
    assert "note: no run of b returned 'mm', which the claim 'mm: b > a' is about; did you mean 'm'?" in error
    assert error.count("'mm', which") == 1, "once, not once per arm"
    (first, *_) = ky.Store.open(study.parent / "runs").finished
    assert first.summary["other"] == 1.0, "run.summary(...) is kept beside what is returned"


def test_a_corrected_claim_is_said_to_be_post_hoc(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(study)
    assert "differs from" not in capsys.readouterr().err
    study.write_text(STUDY.replace("NAME", "m"))
    run(study)
    error = capsys.readouterr().err
    assert "note: 'm: b > a' differs from the claims that noted registered in" in error and "as post hoc" in error


def test_too_few_seeds_are_pointed_out_before_the_runs_and_for_the_grid(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kymograph._experiments.running.compute_stage", lambda *_: StageResult())
    run(study)
    assert "cannot decide" not in capsys.readouterr().err, "six seeds are enough for one claim"
    study.write_text(STUDY.replace("NAME", "m").replace("noted_study", "gridded_study"))
    run(study, "--grid", "lr=0.1,0.2,0.3,0.4")
    assert "6 seeds cannot decide the 4 claims of gridded" in capsys.readouterr().err


def _write(root: Path, arm: str, seed: int, last: float, **summary: Any) -> None:
    series = {"loss": RunSeries(np.arange(2), np.array([1.0, last]))}
    write_record(root, RunSpec("noted", arm, seed, {"lr": 0.1}, 1), RunResult(series, summary), {}, 1.0)


def test_an_arm_that_is_the_same_in_all_seeds_is_named_with_a_number(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        _write(tmp_path, "same", seed, 0.5, loss=0.25, size=3)
        _write(tmp_path, "seeded", seed, 0.5 / seed, loss=0.25 / seed, size=3)
    found = same_in_all_seeds(Store.open(tmp_path).runs, ["loss"])
    assert found is not None and found.startswith("loss is 0.25 in all 3 seeds of same: the run does not seem to use")
    for seed in (1, 2, 3):
        _write(tmp_path, "too", seed, 0.5, loss=0.125)
    found = same_in_all_seeds(Store.open(tmp_path).runs)
    assert found is not None and "of same, and likewise in 1 more arm:" in found


def test_numbers_that_may_well_be_the_same_are_not_pointed_out(tmp_path: Path) -> None:
    for seed in (1, 2):
        _write(tmp_path, "series differ", seed, 0.5 / seed, loss=0.0)
        _write(tmp_path, "summaries differ", seed, 0.5, loss=0.1 * seed)
        write_failure(tmp_path, RunSpec("noted", "failed", seed, {}, 1), "it broke", {})
    _write(tmp_path, "one seed", 1, 0.5, loss=0.25)
    assert same_in_all_seeds(Store.open(tmp_path).runs) is None


def test_runs_without_a_summary_are_compared_by_their_series(tmp_path: Path) -> None:
    for seed in (1, 2):
        _write(tmp_path, "same", seed, 0.5)
    found = same_in_all_seeds(Store.open(tmp_path).runs)
    assert found is not None and found.startswith("the series loss is the same in all 2 seeds of same")
