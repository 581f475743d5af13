"""Which device computes, and what becomes of a stack that cannot be stored."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._sweep import compute as computing
from kymograph._sweep.compute import accelerators, check_device, choose_device
from kymograph._sweep.progress import Follower
from tests.studies.tossing import REFERENCE
from tests.sweep.conftest import Machine


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "auto:1", ""])
def test_a_name_that_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(KymographError, match="there is no device"):
        check_device(name)


def test_auto_takes_the_best_that_there_is(machine: Machine) -> None:
    machine.has()
    assert choose_device("auto") == "cpu"
    machine.has(mps=True)
    assert choose_device("auto") == "mps"
    assert choose_device("auto", float64=True) == "cpu"
    machine.has(cuda=1)
    assert choose_device("auto") == choose_device("auto", float64=True) == "cuda"


def test_a_device_that_is_not_there_is_refused_in_one_sentence(machine: Machine) -> None:
    machine.has()
    for name in ("cuda", "cuda:0", "mps"):
        with pytest.raises(KymographError, match=f"no '{name}' device"):
            choose_device(name)
    machine.has(cuda=2)
    assert choose_device("cuda:1") == "cuda:1"
    with pytest.raises(KymographError, match="no 'cuda:2' device"):
        choose_device("cuda:2")
    machine.has(mps=True)
    with pytest.raises(KymographError, match="float64"):
        choose_device("mps", float64=True)


def test_accelerators_are_counted(machine: Machine) -> None:
    machine.has(cuda=2)
    assert accelerators("auto") == accelerators("cuda") == ["cuda:0", "cuda:1"]
    assert accelerators("cuda:1") == ["cuda:1"]
    assert accelerators("cpu") == []
    machine.has(mps=True)
    assert accelerators("auto") == accelerators("mps") == ["mps"]


def test_a_machine_without_an_accelerator_is_not_asked_through_torch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has()
    monkeypatch.setattr(computing, "import_torch", lambda: pytest.fail("torch was asked for"))
    assert accelerators("auto") == accelerators("cpu") == []


def test_a_result_that_cannot_be_stored_fails_its_own_run_only(tmp_path: Path) -> None:
    """What cannot be packed is the run's fault, unlike a disk that is full."""
    done = run_sweep("tests.studies.placed:Odd", (1, 2), ComputeOptions(tmp_path, "serial", 2, "cpu", quiet=True))
    assert [outcome.status for outcome in done.failures] == ["failed"]
    assert "values of type" in str(done.failures[0].reason) and len(done.store.finished) == 1


def test_computing_needs_a_directory() -> None:
    with pytest.raises(AssertionError):
        computing.compute(None, None, computing.Workplace("cpu", Follower()))  # type: ignore[arg-type]


def test_an_unknown_device_is_named(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="no device 'tpu'"):
        kymograph.run(REFERENCE, seeds=[1], out=tmp_path / "x", device="tpu", quiet=True)
    assert not (tmp_path / "x").exists()
