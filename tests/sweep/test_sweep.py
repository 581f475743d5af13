"""A sweep as a whole: what is stored is not computed again, and a kill at any moment loses nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._experiments import stages as stage
from kymograph._experiments.running import choose_seeds, run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.record import STATUS
from kymograph._sweep.engines import base
from tests.studies.tossing import REFERENCE
from tests.sweep.rigs import NOTES, Rig, contents, copy_study

FAILING = "tests.studies.failing:Failing"
ROUNDS, KILLS_A_ROUND = 5, 4
SEEDS = range(16)
"""Eight stacks, so that a sweep is a series of moments at which something is or is not yet stored."""


def test_a_finished_run_is_never_computed_again(tmp_path: Path) -> None:
    first = kymograph.run(REFERENCE, seeds=[1, 2], out=tmp_path, quiet=True)
    stamps = {run.id: (run.directory / STATUS).stat().st_mtime_ns for run in first}
    done = run_sweep(REFERENCE, (1, 2, 3), ComputeOptions(tmp_path, "serial", 2, "cpu", quiet=True))
    assert (done.computed, done.found) == (2, 4)
    again = {run.id: (run.directory / STATUS).stat().st_mtime_ns for run in done.store}
    assert {run: again[run] for run in stamps} == stamps


def test_the_command_exits_with_1_if_a_run_failed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kymograph", "run", FAILING, "--seeds", "1", "2", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "3 runs computed, 0 found, 1 failed" in done.stdout
    assert "failed: raise, seed 2: " in done.stderr and "cursed" in done.stderr


def test_a_restart_uses_the_engine_of_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    study = str(copy_study(tmp_path / "code"))
    kymograph.run(study, seeds=[1, 2, 3, 4], out=tmp_path / "out", quiet=True, engine="serial")
    asked: list[int] = []
    choose = base.choose_engine

    def note(name: str, stacks: int, workers: int | None, device: str, options: dict, processes: int) -> base.Engine:
        asked.append(stacks)
        return choose("serial", stacks, workers, device, options)

    monkeypatch.setattr(stage, "choose_engine", note)
    kymograph.run(study, seeds=[1, 2, 3, 4, 5, 6], out=tmp_path / "out", quiet=True)
    assert asked[-1] == 3, "chosen for all stacks of the plan, not for those that are left"


def test_seeds_are_checked() -> None:
    assert choose_seeds(None, None)[:3] == (42, 123, 456) and len(choose_seeds(None, None)) == 10
    for seeds, count, message in (
        ([1, 1], None, "twice"), ([-1], None, "whole number"), ([True], None, "whole number"), (["1"], None, "whole"),
        ([1], 3, "not both"), (None, 0, "at least 1"), ([], None, "at least one"),
    ):  # fmt: skip
        with pytest.raises(KymographError, match=message):
            choose_seeds(seeds, count)  # type: ignore[arg-type]


def stored(root: Path) -> set[str]:
    """Returns the records that are there; one that is being written is hidden, and is no run."""
    return {str(path) for path in root.glob("contract/[!.]*/status.json")}


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill comes a random moment after a random number of runs is stored: slow machines are hit like fast ones."""
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    study = copy_study(tmp_path / "code")

    def start(out: Path, engine: str) -> subprocess.Popen:
        return Rig(engine).start(study, SEEDS, out, "--seconds", "0.1")

    assert start(tmp_path / "whole", "serial").wait() == 0
    expected = contents(tmp_path / "whole")
    runs = len(stored(tmp_path / "whole"))
    draw = random.Random(0)
    at_work = partial = 0
    for round_ in range(ROUNDS):
        out = tmp_path / f"round {round_}"
        survivors: set[str] = set()
        for number in range(KILLS_A_ROUND):
            process = start(out, ("serial", "processes")[(round_ + number) % 2])
            target = draw.randint(len(survivors), max(len(survivors), runs // 2))
            while process.poll() is None and len(stored(out)) < target:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.2 if target > len(survivors) else 2.0))
            at_work += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            now = stored(out)
            assert now >= survivors, "a stored run was lost"
            survivors = now
            partial += 0 < len(now) < runs
        assert start(out, "serial").wait() == 0
        assert contents(out) == expected
    assert at_work >= 5, "the kills must hit sweeps that are at work"
    assert partial >= 1, "some kills must leave a sweep half done"
