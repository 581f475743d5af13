from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.experiments import stages as stage
from kymograph.experiments.running import choose_seeds, run_sweep
from kymograph.experiments.stages import ComputeOptions
from kymograph.runs.record import STATUS
from kymograph.runs.spec import RunSpec
from kymograph.studies.loading import load_study
from kymograph.sweep.engines import base
from kymograph.sweep.engines.base import choose_engine
from kymograph.sweep.orders import Stack, missing_stacks
from tests.conftest import QUICK_CLIPPING, QUICK_DEPTH

FAILING = "tests.studies.failing:Failing"


def options(out: Path, engine: str = "serial") -> ComputeOptions:
    return ComputeOptions(out, engine, 2, "cpu", quiet=True)


def specs(count: int, kind: int = 0) -> list[RunSpec]:
    return [RunSpec("s", "a", seed, {"kind": kind}, 1) for seed in range(count)]


def planned(runs: list[RunSpec], root: Path, largest: int) -> list[Stack]:
    return missing_stacks(runs, root, lambda spec: (spec.config["kind"],), lambda spec: 1, largest)


def test_stacks_are_few_equal_and_of_one_kind(tmp_path: Path) -> None:
    stacks = planned([*specs(10), *specs(3, kind=1)], tmp_path, largest=4)
    assert sorted(len(stack.specs) for stack in stacks) == [3, 3, 3, 4]
    assert all(len({spec.config["kind"] for spec in stack.specs}) == 1 for stack in stacks)


def test_a_stack_crosses_to_a_worker_unchanged(tmp_path: Path) -> None:
    (stack,) = planned(specs(3), tmp_path, largest=8)
    assert Stack.from_json(stack.to_json()) == stack


def test_finished_runs_stay_in_their_stack_so_that_a_restart_computes_the_same_one(tmp_path: Path) -> None:
    study = load_study("clipping")
    asked = study.specs([1, 2, 3], ["extreme/clip"], QUICK_CLIPPING)
    kymograph.run("clipping", seeds=[2], arms=["extreme/clip"], out=tmp_path, quiet=True, **QUICK_CLIPPING)
    (stack,) = missing_stacks(asked, tmp_path, lambda s: study.stack_key(s.config), lambda s: 1, 8)
    assert [spec.seed for spec in stack.specs] == [1, 2, 3]
    assert stack.missing == (True, False, True)


def test_a_finished_run_is_never_computed_again(tmp_path: Path) -> None:
    first = kymograph.run("clipping", seeds=[1, 2], out=tmp_path, quiet=True, **QUICK_CLIPPING)
    stamps = {run.id: (run.directory / STATUS).stat().st_mtime_ns for run in first}
    done = run_sweep("clipping", (1, 2, 3), options(tmp_path), fields=QUICK_CLIPPING)
    assert (done.computed, done.found) == (4, 8)
    again = {run.id: (run.directory / STATUS).stat().st_mtime_ns for run in done.store}
    assert {run: again[run] for run in stamps} == stamps


def test_the_command_exits_with_1_if_a_run_failed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kymograph", "run", FAILING, "--seeds", "1", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "3 runs computed, 0 found, 1 failed" in done.stdout
    assert "failed: raise, seed 2: " in done.stderr and "cursed" in done.stderr


def test_a_restart_uses_the_engine_of_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kymograph.run("depth", seeds=[1], arms=["plain", "residual"], out=tmp_path, quiet=True, **QUICK_DEPTH)
    asked: list[int] = []
    choose = base.choose_engine

    def note(name: str, stacks: int, workers: int | None, device: str, options: dict) -> base.Engine:
        asked.append(stacks)
        return choose("serial", stacks, workers, device, options)

    monkeypatch.setattr(stage, "choose_engine", note)
    kymograph.run("depth", seeds=[1], out=tmp_path, quiet=True, **QUICK_DEPTH)
    assert asked[-1] == 3, "chosen for all stacks of the plan, not for those that are left"


def test_seeds_are_checked() -> None:
    assert choose_seeds(None, None)[:3] == (42, 123, 456) and len(choose_seeds(None, None)) == 10
    for seeds, count, message in (
        ([1, 1], None, "twice"), ([-1], None, "whole number"), ([True], None, "whole number"), (["1"], None, "whole"),
        ([1], 3, "not both"), (None, 0, "at least 1"), ([], None, "at least one"),
    ):  # fmt: skip
        with pytest.raises(KymographError, match=message):
            choose_seeds(seeds, count)  # type: ignore[arg-type]


def test_engines_are_checked() -> None:
    def chosen(name: str, stacks: int, workers: int | None) -> tuple[str, int]:
        engine = choose_engine(name, stacks, workers, "cpu")
        return type(engine).__name__, engine.workers  # type: ignore[attr-defined]

    assert chosen("auto", 1, None) == ("SerialEngine", 1)
    assert chosen("auto", 5, 3) == ("ProcessesEngine", 3)
    assert chosen("processes", 2, 8) == ("ProcessesEngine", 2)
    with pytest.raises(KymographError, match="did you mean 'serial'"):
        choose_engine("serail", 1, None, "cpu")
    with pytest.raises(KymographError, match="at least 1"):
        choose_engine("auto", 1, 0, "cpu")


def test_an_unknown_device_is_named(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="no device 'tpu'"):
        kymograph.run("clipping", seeds=[1], out=tmp_path / "x", device="tpu", quiet=True, **QUICK_CLIPPING)
    assert not (tmp_path / "x").exists()
