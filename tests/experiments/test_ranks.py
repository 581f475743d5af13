"""Several ranks record one run: rank 0 writes it, and whatever goes wrong on any rank is one sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from kymograph._runs.directory import Directory
from kymograph._runs.stored_run import StoredRun

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not dist.is_gloo_available(), reason="torch has no gloo backend")]
PROGRAM = Path(__file__).with_name("rank_program.py")
STEPS = 20
LAUNCH = (sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2", str(PROGRAM))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "KYMOGRAPH_RANK_TIMEOUT": "4"}


def launch(strategy: str, fault: str, out: Path) -> subprocess.CompletedProcess[str]:
    command, variables = [*LAUNCH, strategy, str(STEPS), str(out)], {**ENVIRONMENT, "FAULT": fault}
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=90, check=False)


def the_run(out: Path) -> StoredRun:
    (run,) = ended_runs(out)
    return run


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_one_record_and_a_resumed_one_has_the_same_bits(strategy: str, tmp_path: Path) -> None:
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    done = launch(strategy, "none", straight)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("rank 0 of 2 records ranks") == 1
    assert "rank 1 done: FollowingRun" in done.stdout
    one = the_run(straight)
    assert one.provenance["processes"]["ranks"] == 2
    assert one.provenance["processes"]["strategy"] == strategy
    assert one.provenance["processes"].get("mesh") == (None if strategy == "ddp" else {"dimension 0": 2})

    assert launch(strategy, "interrupted", resumed).returncode != 0
    assert not ended_runs(resumed)
    again = launch(strategy, "none", resumed)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("resumed at step 10 of an earlier start") == 1
    other = the_run(resumed)
    assert set(one.series) == set(other.series)
    for name, series in one.series.items():
        np.testing.assert_array_equal(series.step, other.series[name].step)
        np.testing.assert_array_equal(series.value, other.series[name].value, err_msg=name)
    skipped = launch(strategy, "skip", resumed)
    assert skipped.returncode == 0
    assert skipped.stdout.count("ExistingRun") == 2


@pytest.mark.parametrize(
    ("fault", "sentence", "status"),
    [
        ("killed", r"rank 1 \(process \d+\) has died, and rank 0 was ended", "failed"),
        ("raises", "rank 1 failed: ValueError: a bad sample, and rank 0 was ended", "failed"),
        ("version", r"rank 1 has kymograph 0\.0\.1 and rank 0 has .*; install the same on every rank", "absent"),
        ("absent", "rank 1 of 2 has not begun to record or measure within 4 s", "absent"),
        ("full disk", "rank 0 failed: cannot write to the disk: No space left", "missing"),
        ("other run", "rank 1 records another run than rank 0", "missing"),
    ],
)
def test_what_goes_wrong_on_one_rank_ends_all(fault: str, sentence: str, status: str, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    started = time.monotonic()
    done = launch("ddp", fault, out)
    assert done.returncode != 0
    assert re.search(sentence, done.stderr), done.stderr
    assert "terminate called" not in done.stderr
    assert time.monotonic() - started < 60
    assert not running(out)
    if status == "absent":
        assert not out.exists()
        return
    runs = ended_runs(out)
    assert [run.status for run in runs] == (["failed"] if status == "failed" else [])
    if status == "failed":
        assert re.search(sentence, runs[0].failure)


def running(out: Path) -> list[str]:
    """Returns the processes of the training that have not ended."""
    processes = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    return [line for line in processes.splitlines() if str(out) in line]


def ended_runs(out: Path) -> list[StoredRun]:
    return list(Directory(out).store.runs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_ends_all_ranks(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    command = [*LAUNCH, "ddp", "1000000", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as launcher:
        until = time.monotonic() + 60
        while not list(out.rglob("state.safetensors")) and time.monotonic() < until:
            time.sleep(0.2)
        launcher.send_signal(number)
        launcher.wait(60)
    assert not running(out)
    assert not ended_runs(out)  # interrupted: missing, and it can resume
    assert list(out.rglob("state.safetensors"))
