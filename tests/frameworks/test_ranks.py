"""Under the DDP strategies of Lightning and transformers, two ranks record what one process does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph._runs.directory import Directory
from kymograph._runs.stored_run import StoredRun

pytestmark = pytest.mark.frameworks
PROGRAM = Path(__file__).with_name("rank_program.py")


def trained(framework: str, size: int, out: Path, *more: str) -> StoredRun:
    launch = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(size)]
    command = [*launch, str(PROGRAM), framework, str(out), *more]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = [run for run in Directory(out).store.runs if run.arm == f"{framework} {size}"]
    return run


def check_same(one: StoredRun, several: StoredRun) -> None:
    assert several.provenance["processes"] == {"ranks": 2, "strategy": "ddp"}
    for name, series in one.series.items():
        np.testing.assert_array_equal(series.step, several.series[name].step, err_msg=name)
        if series.sites is None:
            continue  # what the framework logs: its own mean, or rank 0's number
        found = several.series[name].value
        atol = 1e-5 * np.nanmax(np.abs(series.value), initial=0.0)
        np.testing.assert_allclose(found, series.value, rtol=1e-5, atol=atol, err_msg=name)


@pytest.mark.parametrize("framework", ["lightning", "transformers"])
def test_two_ranks_record_what_one_process_does(framework: str, tmp_path: Path) -> None:
    one, several = (trained(framework, size, tmp_path) for size in (1, 2))
    check_same(one, several)


def test_two_ranks_resume_from_a_checkpoint_of_transformers(tmp_path: Path) -> None:
    straight = dict(trained("transformers", 2, tmp_path).series)  # read before the record is moved away
    (tmp_path / "frameworks").rename(tmp_path / "before")
    resumed = trained("transformers", 2, tmp_path, "resume")
    assert any("resumed at step 6" in note for note in resumed.provenance["notes"])
    for name, series in straight.items():
        if series.sites is None:
            continue  # the mean that transformers logs begins anew when it resumes
        np.testing.assert_array_equal(series.step, resumed.series[name].step, err_msg=name)
        np.testing.assert_allclose(series.value, resumed.series[name].value, rtol=1e-6, err_msg=name)
