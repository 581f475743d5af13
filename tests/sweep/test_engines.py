"""Which engine computes with how many workers, and what the engines of this machine do with a failing study."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._sharing.verify import verify
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.compute import RunOutcome
from kymograph._sweep.engines import local
from kymograph._sweep.engines.base import choose_engine
from kymograph._sweep.orders import Order, Stack, orders_for
from kymograph._sweep.progress import Follower, Progress
from tests.cli.command import write_coin
from tests.sweep.conftest import CORES, Machine

FAILING = "tests.studies.failing:Failing"
every_engine = pytest.mark.parametrize("engine", ("serial", "processes"))  # the contract of all is in test_contract.py


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


def test_one_card_has_one_worker(machine: Machine) -> None:
    """`auto` once started a CUDA process per core on a single card."""
    machine.has(cuda=1)
    for device in ("auto", "cuda", "cuda:0"):
        assert isinstance(choose_engine("auto", 40, None, device), local.SerialEngine)
        assert choose_engine("processes", 40, None, device).workers == 1  # type: ignore[attr-defined]


def test_two_cards_have_two_workers(machine: Machine) -> None:
    machine.has(cuda=2)
    engine = choose_engine("auto", 40, None, "auto")
    assert isinstance(engine, local.ProcessesEngine) and engine.workers == 2
    one_stack = choose_engine("auto", 1, None, "auto")
    assert isinstance(one_stack, local.SerialEngine)


def test_cores_have_a_worker_each_and_a_number_asked_for_is_taken(machine: Machine) -> None:
    machine.has(cuda=1)
    on_cpu = choose_engine("auto", 200, None, "cpu")
    assert isinstance(on_cpu, local.ProcessesEngine) and on_cpu.workers == CORES
    asked = choose_engine("auto", 200, 3, "cuda")
    assert isinstance(asked, local.ProcessesEngine) and asked.workers == 3


def devices_of_workers(monkeypatch: pytest.MonkeyPatch, workers: int, device: str) -> list[str]:
    """Returns the device in the order of each of several workers, all of which are at work at once."""
    given: list[str] = []
    together = threading.Barrier(workers, timeout=10)

    def compute(hand: object, order: Order) -> list[RunOutcome]:
        together.wait()
        given.append(order.device)
        return []

    monkeypatch.setattr(local._WorkerThread, "_compute", compute)
    stacks: Sequence[Stack] = [Stack((), (), 1)] * workers
    code = CodeReference("Study", "built_in", user_defined=False)
    orders = orders_for(code, stacks, Path(), (), device, None)
    assert list(local.ProcessesEngine(workers).run(orders, Follower())) == [[]] * workers
    return sorted(given)


def test_workers_have_a_card_each(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has(cuda=2)
    assert devices_of_workers(monkeypatch, 2, "auto") == ["cuda:0", "cuda:1"]
    assert devices_of_workers(monkeypatch, 4, "cuda") == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert devices_of_workers(monkeypatch, 2, "cuda:1") == ["cuda:1", "cuda:1"]


def test_workers_do_not_choose_for_themselves(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has()
    assert devices_of_workers(monkeypatch, 2, "auto") == ["cpu", "cpu"]


def options(out: Path, engine: str) -> ComputeOptions:
    return ComputeOptions(out, engine, 2, "cpu", quiet=True)


@pytest.mark.slow
@every_engine
def test_a_failing_run_is_recorded_with_its_traceback_and_the_others_go_on(tmp_path: Path, engine: str) -> None:
    done = run_sweep(FAILING, (1, 2, 3), options(tmp_path, engine))
    assert [outcome.reason for outcome in done.failures] == ["RuntimeError: the second seed is cursed"]
    assert len(done.store.finished) == 5
    (failed,) = done.store.failed
    assert (failed.arm, failed.seed) == ("raise", 2)
    trace = failed.traceback
    assert trace is not None and "in train" in trace and "this line is not shown" in trace, "the whole error is kept"
    again = run_sweep(FAILING, (1, 2, 3), options(tmp_path, engine))
    assert (again.computed, again.found) == (1, 5), "only the failed run is tried again"


@every_engine
def test_the_data_directory_travels_with_the_order(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KYMOGRAPH_DATA", raising=False)
    out = tmp_path / "out"
    done = run_sweep(
        "tests.studies.placed:Placed", (1,), ComputeOptions(out, engine, 1, "cpu", tmp_path / "data", True)
    )
    (run,) = done.store
    assert run.summary["data_dir"] == str(tmp_path / "data")


@every_engine
def test_storing_that_fails_ends_the_sweep_and_trains_nothing_again(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk used to train up to 256 runs of a stack once more, one by one."""
    counted = tmp_path / "trained"
    monkeypatch.setenv("KYMOGRAPH_TEST_COUNT", str(counted))
    out = tmp_path / "out"
    with pytest.raises(KymographError, match=r"cannot (write|create)"):
        run_sweep("tests.studies.placed:Unstorable", (1, 2, 3), options(out, engine))
    assert counted.read_text().count("trained") == 1


def test_a_dying_worker_costs_its_stack_and_nothing_else(tmp_path: Path) -> None:
    done = run_sweep(FAILING, (1, 3), options(tmp_path, "processes"), arms=["work", "die"])
    assert {run.arm for run in done.store.finished} == {"work"} and len(done.store.finished) == 2
    assert all("signal 9" in (outcome.reason or "") for outcome in done.failures) and len(done.failures) == 2
    assert all(run.traceback is None for run in done.store.failed), "it died without a word"
    assert all(run.log_heads for run in done.store.failed)
    assert [str(result) for result in verify(tmp_path) if not result.holds] == []


@pytest.mark.parametrize("code", ["0", "'a message'"])
@every_engine
@pytest.mark.slow
def test_a_study_that_calls_exit_fails_its_run_and_not_the_sweep(tmp_path: Path, engine: str, code: str) -> None:
    path = write_coin(tmp_path)
    path.write_text(path.read_text().replace("        step = ", f"        raise SystemExit({code})\n        step = "))
    done = run_sweep(str(path), (1, 2), options(tmp_path / "runs", engine))
    assert len(done.failures) == 2 and not done.store.finished
    assert all("SystemExit" in (run.reason or "") and "in train" in (run.traceback or "") for run in done.store.failed)


@pytest.mark.slow
def test_the_engine_of_the_guide_keeps_the_contract_too(tmp_path: Path) -> None:
    """The guide's engine used to raise when a worker died."""
    guide = Path(__file__).parents[2] / "docs" / "howto" / "add-an-engine.md"
    space: dict[str, Any] = {}
    exec(next(block for block in guide.read_text().split("```python\n")[1:]).split("```")[0], space)
    study = kymograph.load_study(FAILING)
    code = CodeReference("Failing", "tests.studies.failing", search=(str(guide.parents[2]),))
    stacks = [Stack((study.specs([1], [arm])[0],), (True,), 1) for arm in ("die", "work")]
    orders = orders_for(code, stacks, tmp_path, (), "cpu", None)
    died, worked = space["Engine"](1).run(orders, Progress("", 2, 2, quiet=True))
    assert [(one.status, "signal 9" in (one.reason or "")) for one in died] == [("failed", True)]
    assert [one.status for one in worked] == ["finished"]
    assert [(run.arm, run.status) for run in kymograph.Store.open(tmp_path)] == [
        ("die", "failed"),
        ("work", "finished"),
    ]
