"""A watched run that is killed goes on where it was saved, with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kymograph as ky
from kymograph._probes.quantities import chosen
from tests.studies import watched_example

ROOT = Path(watched_example.__file__).parents[2]


def start(way: str, arm: str, out: Path, kill_at: int | None = None) -> tuple[int, list[int]]:
    """Runs the example in a process of its own; returns its exit code and the steps that it computed."""
    steps = out.with_suffix(".steps")
    steps.unlink(missing_ok=True)
    environment = {**os.environ, "STEPS": str(steps), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # the same in all processes, whatever the machine
    if kill_at is not None:
        environment["KILL_AT"] = str(kill_at)
    command = [sys.executable, "-m", "tests.studies.watched_example", way, arm, str(out)]
    done = subprocess.run(command, check=False, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, [int(line) for line in steps.read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "arm"), [("study", "sgd"), ("study", "adam"), ("record", "adam")])
def test_a_killed_watched_run_ends_with_the_same_bits(way: str, arm: str, tmp_path: Path) -> None:
    assert start(way, arm, tmp_path / "whole") == (0, list(range(30)))
    assert start(way, arm, tmp_path / "killed", kill_at=17) == (-signal.SIGKILL, list(range(18)))
    assert start(way, arm, tmp_path / "killed", kill_at=25) == (-signal.SIGKILL, list(range(14, 26)))
    assert start(way, arm, tmp_path / "killed") == (0, list(range(21, 30)))
    (one,) = ky.Store.open(tmp_path / "whole").finished
    (other,) = ky.Store.open(tmp_path / "killed").finished
    expected = {"loss", *chosen("deep")} - {"saturated_fraction"}  # no layer saturates
    assert one.summary == other.summary and set(one.series) == expected == set(other.series)
    for name in one.series:
        mine, its = one.series[name], other.series[name]
        assert mine.sites == its.sites and np.array_equal(mine.step, its.step)
        assert np.array_equal(mine.value, its.value, equal_nan=True), name
    assert np.isfinite(one.series["gradient_cosine"].value[1:, 0]).all()
    assert np.isfinite(one.series["sharpness"].value).all()
    starts = ["resumed at step 14 of an earlier start", "resumed at step 21 of an earlier start"]
    assert [note for note in other.notes if note not in one.notes] == starts and set(one.notes) <= set(other.notes)
