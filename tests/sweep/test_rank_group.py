"""A study that asks for several processes gets a process group for each run, on every engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

import kymograph as ky
from kymograph._sweep.engines.base import choose_engine
from kymograph._sweep.engines.slurm import Options
from tests.sweep.rigs import contents

STUDY = Path(__file__).with_name("rank_study.py")
slow = pytest.mark.slow
needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch has no gloo backend")


@slow
@needs_gloo
def test_every_engine_stores_the_same_runs_of_two_processes(tmp_path: Path) -> None:
    for engine in ("serial", "processes"):
        store = ky.run(str(STUDY), [42, 123], out=tmp_path / engine, engine=engine, arms=["slow"], quiet=True)
        for run in store.runs:
            assert run.status == "finished"
            assert run.summary["world"] == 2
            assert run.summary["shared is shared"] and run.summary["own is own"]
            assert run.provenance["processes"] == {"ranks": 2, "strategy": "ddp"}
            assert np.isfinite(run.series["output_norm"].value).all()
    assert contents(tmp_path / "serial") == contents(tmp_path / "processes")


@slow
@needs_gloo
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [("kill", "has died, and rank 0 was ended"), ("raise", "rank 1 failed: ValueError: a bad sample, and rank 0")],
)
def test_a_rank_that_ends_early_fails_the_run_and_leaves_no_process(fault: str, sentence: str, tmp_path: Path) -> None:
    store = ky.run(str(STUDY), [42], out=tmp_path, engine="processes", arms=["slow"], fault=fault, quiet=True)
    (run,) = store.runs
    assert run.status == "failed"
    assert sentence in run.failure
    processes = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    assert "kymograph._sweep.rank_group" not in processes


@slow
@needs_gloo
def test_a_rank_that_cannot_start_is_reported_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KYMOGRAPH_TEST_CANNOT_START", "1")
    with pytest.raises(ky.KymographError, match=r"rank 1 of 2 ended with code 1: .*no such library"):
        ky.run(str(STUDY), [42], out=tmp_path, engine="serial", arms=["slow"], quiet=True)


def test_a_worker_takes_as_many_cores_as_its_runs_have_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert choose_engine("processes", 20, None, "cpu").workers == 8
    assert choose_engine("processes", 20, None, "cpu", processes=3).workers == 2
    assert choose_engine("processes", 20, None, "cpu", processes=16).workers == 1
    assert "--cpus-per-task=2" in Options().lines("cpu", 2)
    assert "--gres=gpu:2" in Options().lines("cuda", 2)


def test_the_number_of_processes_is_checked() -> None:
    with pytest.raises(ky.KymographError, match="processes must be a whole number of at least 1, not 0"):
        ky.study(arms={"a": {}}, processes=0)
