"""What the engines of this machine do with real studies, and what an order holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.experiments.running import run_sweep
from kymograph.experiments.stages import ComputeOptions
from kymograph.runs.store import Store
from kymograph.studies.loading import load_with_reference
from kymograph.sweep import compute as computing
from kymograph.sweep.code_identity import CodeReference
from kymograph.sweep.orders import Order, Stack, orders_for
from kymograph.sweep.progress import Progress
from kymograph.sweep.worker import carry_out
from tests.cli.command import write_coin
from tests.conftest import QUICK_CLIPPING, QUICK_DEPTH

FAILING = "tests.studies.failing:Failing"
LOCAL = ("serial", "processes")  # the contract of all engines is in test_contract.py
every_engine = pytest.mark.parametrize("engine", LOCAL)


def options(out: Path, engine: str) -> ComputeOptions:
    return ComputeOptions(out, engine, 2, "cpu", quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize(("study", "fields"), [("clipping", QUICK_CLIPPING), ("depth", QUICK_DEPTH)])
def test_every_engine_gives_the_same_bytes(tmp_path: Path, study: str, fields: dict) -> None:
    stores = [
        kymograph.run(study, seeds=[1, 2], out=tmp_path / name, quiet=True, engine=name, workers=2, **fields)
        for name in LOCAL
    ]
    for store in stores[1:]:
        assert len(store) == len(stores[0]) > 0
        for run, other in zip(stores[0], store, strict=True):
            for name in ("arrays.safetensors", "summary.json"):
                assert (run.directory / name).read_bytes() == (other.directory / name).read_bytes()


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


@pytest.mark.slow
def test_the_engine_of_the_guide_keeps_the_contract_too(tmp_path: Path) -> None:
    """The guide's engine used to raise when a worker died."""
    guide = Path(__file__).parents[2] / "docs" / "howto" / "add-an-engine.md"
    space: dict[str, Any] = {}
    exec(next(block for block in guide.read_text().split("```python\n")[1:]).split("```")[0], space)
    study = kymograph.load_study(FAILING)
    code = CodeReference("Failing", "tests.studies.failing", search=(str(guide.parents[2]),))
    stacks = [Stack((study.specs([1], [arm])[0],), (True,), 1) for arm in ("die", "work")]
    orders = orders_for(code, stacks, tmp_path, "cpu", None)
    died, worked = space["Engine"](1).run(orders, Progress("", 2, 2, quiet=True))
    assert [(one.status, "signal 9" in (one.reason or "")) for one in died] == [("failed", True)]
    assert [one.status for one in worked] == ["finished"]
    assert [(run.arm, run.status) for run in kymograph.Store.open(tmp_path)] == [
        ("die", "failed"),
        ("work", "finished"),
    ]


def test_an_order_names_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that starts in another directory must find the same files."""
    monkeypatch.chdir(tmp_path)
    runs = kymograph.load_study("depth").specs([1], ["plain"])
    code = CodeReference("Depth", "kymograph_studies.depth", user_defined=False)
    (order,) = orders_for(code, [Stack((runs[0],), (True,), 3)], Path("out"), "cpu", "data")
    assert (order.directory, order.data_dir) == (str(tmp_path / "out"), str(tmp_path / "data"))


def test_an_order_is_json_and_comes_back_as_it_was(tmp_path: Path) -> None:
    runs = kymograph.load_study("depth").specs([1], ["plain"])
    code = CodeReference("Depth", "kymograph_studies.depth", user_defined=False)
    (order,) = orders_for(code, [Stack((runs[0],), (True,), 3)], tmp_path, "cpu", tmp_path)
    back = Order.from_json(json.loads(json.dumps(order.to_json())))
    assert back.to_json() == order.to_json()
    assert back.load_study().typed(back.stack.specs[0]) == runs[0], "the settings become the study's own again"


def test_a_result_that_cannot_be_stored_fails_its_own_run_only(tmp_path: Path) -> None:
    """What cannot be packed is the run's fault, unlike a disk that is full."""
    done = run_sweep("tests.studies.placed:Odd", (1, 2), options(tmp_path, "serial"))
    assert [outcome.status for outcome in done.failures] == ["failed"]
    assert "values of type" in str(done.failures[0].reason) and len(done.store.finished) == 1


def test_computing_needs_a_directory() -> None:
    with pytest.raises(AssertionError):
        computing.compute(None, None, computing.Workplace("cpu", None))  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["0", "'a message'"])
@every_engine
@pytest.mark.slow
def test_a_study_that_calls_exit_fails_its_run_and_not_the_sweep(tmp_path: Path, engine: str, code: str) -> None:
    path = write_coin(tmp_path)
    path.write_text(path.read_text().replace("        step = ", f"        raise SystemExit({code})\n        step = "))
    done = run_sweep(str(path), (1, 2), options(tmp_path / "runs", engine))
    assert len(done.failures) == 2 and not done.store.finished
    assert all("SystemExit" in (run.reason or "") and "in train" in (run.traceback or "") for run in done.store.failed)


def test_what_nobody_expected_of_a_worker_is_in_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault outside training used to end the worker: its traceback went nowhere."""

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("while looking around")

    monkeypatch.setattr("kymograph.sweep.worker.check_here", fail)
    (tmp_path / "runs").mkdir()
    path = write_coin(tmp_path)
    study, code = load_with_reference(str(path))
    specs = tuple(study.specs([1, 2], ["fair"], {}))
    (order,) = orders_for(code, [Stack(specs, (True, True), 2)], tmp_path / "runs", "cpu", None)
    answer = carry_out(order, Progress("", 1, 1, quiet=True))
    assert [outcome["reason"] for outcome in answer["outcomes"]] == ["ZeroDivisionError: while looking around"] * 2
    store = Store.of_specs(tmp_path / "runs", specs)
    assert all("in fail" in (run.traceback or "") for run in store.failed) and len(store.failed) == 2
