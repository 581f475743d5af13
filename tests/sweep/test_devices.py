"""Which device computes, and that an accelerator has one worker, whatever the number of cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from kymograph.errors import KymographError
from kymograph.sweep import compute as devices
from kymograph.sweep.code_identity import CodeReference
from kymograph.sweep.compute import RunOutcome, accelerators, check_device, choose_device
from kymograph.sweep.engines import local as processes
from kymograph.sweep.engines import local as serial
from kymograph.sweep.engines.base import choose_engine
from kymograph.sweep.orders import Order, Stack, orders_for
from kymograph.sweep.progress import Follower

CORES = 64


class Machine:
    """A machine with as many cards as a test says."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        patch.setattr(os, "cpu_count", lambda: CORES)

    def has(self, cuda: int = 0, mps: bool = False) -> None:
        self._patch.setattr(devices, "_signs_of_an_accelerator", lambda: bool(cuda or mps))
        self._patch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        self._patch.setattr(torch.cuda, "device_count", lambda: cuda)
        self._patch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


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
    monkeypatch.setattr(devices, "import_torch", lambda: pytest.fail("torch was asked for"))
    assert accelerators("auto") == accelerators("cpu") == []


def test_one_card_has_one_worker(machine: Machine) -> None:
    """`auto` once started a CUDA process per core on a single card."""
    machine.has(cuda=1)
    for device in ("auto", "cuda", "cuda:0"):
        assert isinstance(choose_engine("auto", 40, None, device), serial.SerialEngine)
        assert choose_engine("processes", 40, None, device).workers == 1  # type: ignore[attr-defined]


def test_two_cards_have_two_workers(machine: Machine) -> None:
    machine.has(cuda=2)
    engine = choose_engine("auto", 40, None, "auto")
    assert isinstance(engine, processes.ProcessesEngine) and engine.workers == 2
    one_stack = choose_engine("auto", 1, None, "auto")
    assert isinstance(one_stack, serial.SerialEngine)


def test_cores_have_a_worker_each_and_a_number_asked_for_is_taken(machine: Machine) -> None:
    machine.has(cuda=1)
    on_cpu = choose_engine("auto", 200, None, "cpu")
    assert isinstance(on_cpu, processes.ProcessesEngine) and on_cpu.workers == CORES
    asked = choose_engine("auto", 200, 3, "cuda")
    assert isinstance(asked, processes.ProcessesEngine) and asked.workers == 3


def devices_of_workers(monkeypatch: pytest.MonkeyPatch, workers: int, device: str) -> list[str]:
    """Returns the device in the order of each of several workers, all of which are at work at once."""
    found: list[str] = []
    together = threading.Barrier(workers, timeout=10)

    def compute(hand: object, order: Order) -> list[RunOutcome]:
        together.wait()
        found.append(order.device)
        return []

    monkeypatch.setattr(processes._WorkerThread, "_compute", compute)
    stacks: Sequence[Stack] = [Stack((), (), 1)] * workers
    code = CodeReference("Depth", "kymograph_studies.depth", user_defined=False)
    orders = orders_for(code, stacks, Path(), device, None)
    assert list(processes.ProcessesEngine(workers).run(orders, Follower())) == [[]] * workers
    return sorted(found)


def test_workers_have_a_card_each(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has(cuda=2)
    assert devices_of_workers(monkeypatch, 2, "auto") == ["cuda:0", "cuda:1"]
    assert devices_of_workers(monkeypatch, 4, "cuda") == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert devices_of_workers(monkeypatch, 2, "cuda:1") == ["cuda:1", "cuda:1"]


def test_workers_do_not_choose_for_themselves(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has()
    assert devices_of_workers(monkeypatch, 2, "auto") == ["cpu", "cpu"]
