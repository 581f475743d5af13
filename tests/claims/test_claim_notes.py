"""What a user is told about claims before and after a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph as ky
from kymograph.experiments.stages import StageResult
from tests.cli.command import call

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
    return call("run", str(study), "--n-seeds", "6", "--engine", "serial", "--out", str(study.parent / "runs"), *more)


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
    monkeypatch.setattr("kymograph.experiments.running.compute_stage", lambda *_: StageResult())
    run(study)
    assert "cannot decide" not in capsys.readouterr().err, "six seeds are enough for one claim"
    study.write_text(STUDY.replace("NAME", "m").replace("noted_study", "gridded_study"))
    run(study, "--grid", "lr=0.1,0.2,0.3,0.4")
    assert "6 seeds cannot decide the 4 claims of gridded" in capsys.readouterr().err


def test_runs_without_claims_are_judged_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ky.record("lone", arm="a", seed=1, out=tmp_path) as run:
        run.summary(x=1.0)
    assert call("judge", str(tmp_path)) == 0
    assert capsys.readouterr().err == "no claims are registered for these runs; state some with --claims FILE\n"
