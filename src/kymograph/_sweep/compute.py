"""Computes one stack on its device: trains it, then stores its runs; a failure is recorded with its reason."""

from __future__ import annotations

import gc
import platform
import re
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kymograph._errors import KymographError, first_line
from kymograph._io.processes import remove_abandoned_files
from kymograph._io.writing import make_directory
from kymograph._runs.provenance import provenance
from kymograph._runs.record import PackedRecord, RunResult, pack_record, store_record, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._sweep.heartbeat import PARTIAL, Heartbeat
from kymograph._sweep.orders import Order, Stack
from kymograph._sweep.progress import Follower


def import_torch() -> Any:
    """Returns torch, imported with garbage collection off: the import allocates much and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        import torch
    finally:
        if enabled:
            gc.enable()
    return torch


def check_device(device: str) -> None:
    """Raises if ``device`` is not a valid device name; does not import torch."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise KymographError(f"there is no device {device!r}; use auto, cpu, cuda, cuda:N or mps")


def choose_device(device: str, *, float64: bool = False) -> str:
    """Returns the torch device for ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; raises if it is not available.

    ``float64``: whether the device must support float64, which mps does not.
    """
    check_device(device)
    torch = import_torch()
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name in available if available[name] and not (float64 and name == "mps"))
    kind, _, number = device.partition(":")
    if not available[kind] or (kind == "cuda" and number and int(number) >= torch.cuda.device_count()):
        raise KymographError(f"this machine has no {device!r} device; use --device cpu")
    if float64 and kind == "mps":
        raise KymographError("mps does not compute in float64; use --device cpu")
    return device


def accelerators(device: str) -> list[str]:
    """Returns the accelerators that ``device`` refers to, e.g. ``["cuda:0", "cuda:1"]``; empty for the CPU.

    Several processes on one accelerator compete for its memory and are slower than one, so a sweep starts one worker
    for each. On a machine without signs of an accelerator torch is not imported, which takes a second.
    """
    check_device(device)
    if device == "cpu" or (device == "auto" and not _signs_of_an_accelerator()):
        return []
    chosen = choose_device(device)
    if chosen == "cuda":
        return [f"cuda:{number}" for number in range(import_torch().cuda.device_count())]
    return [] if chosen == "cpu" else [chosen]


def _signs_of_an_accelerator() -> bool:
    """Returns whether the machine has an NVIDIA or AMD driver, or is a Mac with its own; True where unknown."""
    if sys.platform == "linux":
        return any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg"))
    return not (sys.platform == "darwin" and platform.machine() != "arm64")


@dataclass(frozen=True)
class Workplace(Follower):
    """Where a stack is computed: device, data, follower, and the directory of runs and their resume states.

    >>> work = ky.Workplace("cpu")  # to try a study's `train` by hand; nothing is stored
    >>> weights = torch.zeros(3, device=work.device)
    >>> work.tick(1)
    """

    device: str
    follower: Follower = field(default_factory=Follower)
    root: Path | None = None
    data_dir: Path | None = None
    """The directory of data files; None: as the environment says."""
    log: tuple[str, ...] = ()
    """The heads of the directory's log when the work was ordered."""

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self.follower.tick(steps)

    def say(self, text: str) -> None:
        """Shows the current run's progress in words."""
        self.follower.say(text)

    @staticmethod
    def of(order: Order, device: str, follower: Follower) -> Workplace:
        """Returns the workplace of an order."""
        data_dir = None if order.data_dir is None else Path(order.data_dir)
        return Workplace(device, follower, Path(order.directory), data_dir, order.log)

    def directory(self, spec: RunSpec[Any]) -> Path | None:
        """Returns a directory, created if necessary, for this run's resume state; None if nothing is stored."""
        if self.root is None:
            return None
        path = self.root / f"{spec.directory}{PARTIAL}"
        make_directory(path, self.root)
        return path


class Trainer(Protocol):
    """The part of a study that `compute` needs."""

    threads: int | None

    def typed(self, spec: RunSpec[Any]) -> RunSpec[Any]:
        """Returns ``spec`` with the study's own configuration; raises if its source is not the study's."""
        ...

    def train(self, specs: Sequence[RunSpec[Any]], work: Workplace) -> list[RunResult]:
        """Trains ``specs`` together."""
        ...


SUBMITTED = "submitted"


@dataclass(frozen=True)
class RunOutcome:
    """How one run ended, or that it is in the queue of a cluster."""

    run: str
    status: str
    """``finished``, ``failed`` or `SUBMITTED`."""
    reason: str | None = None


def compute(trainer: Trainer, stack: Stack, work: Workplace) -> list[RunOutcome]:
    """Trains a stack and stores its missing runs below ``work.root``.

    If training fails, the stack's missing runs are tried one by one, so that one bad run costs only itself. If storing
    fails, e.g. on a full disk, the error is raised at once, since training again would not help. The same holds for a
    study whose code was edited since the runs were planned.
    """
    assert work.root is not None
    specs = [trainer.typed(spec) for spec in stack.specs]
    origin = {**provenance(work.device, import_torch().get_num_threads()), "log": list(work.log)}
    started = time.perf_counter()
    remove_abandoned_files(stack.study_directory(work.root), work.root)
    with Heartbeat(work.root, stack, work.follower) as heart:
        try:
            results = trainer.train(specs, replace(work, follower=heart))
            records = _packed(stack, results, origin)
        except (Exception, SystemExit) as error:  # a study that calls `sys.exit` must not end the sweep
            failure = error
        else:
            seconds = (time.perf_counter() - started) / len(stack.specs)
            for spec, record in records:
                store_record(work.root, spec, record, seconds)
            for spec in stack.specs:
                shutil.rmtree(work.root / f"{spec.directory}{PARTIAL}", ignore_errors=True)
            return [RunOutcome(spec.id, "finished") for spec in stack.specs]
    if len(stack.specs) == 1:
        return [record_failure(work.root, stack.specs[0], failure, origin)]
    singles = [Stack((spec,), (True,), stack.steps) for spec in stack.missing_specs]
    return [outcome for single in singles for outcome in compute(trainer, single, work)]


def _packed(
    stack: Stack, results: Sequence[RunResult], origin: Mapping[str, Any]
) -> list[tuple[RunSpec[Any], PackedRecord]]:
    """Returns the records of the stack's missing runs, ready to be written."""
    records = []
    for index, (spec, result, missing) in enumerate(zip(stack.specs, results, stack.missing, strict=True)):
        if missing:
            position = {"stack": {"id": stack.id, "runs": len(stack.specs), "place": index}}
            records.append((spec, pack_record(spec, result, {**origin, **position})))
    return records


def record_failure(root: Path, spec: RunSpec[Any], error: BaseException, origin: Mapping[str, Any]) -> RunOutcome:
    """Records that a run failed, with the error as its reason and its traceback; returns the outcome."""
    text = first_line(error, "no message")
    reason = text if isinstance(error, KymographError) else f"{type(error).__name__}: {text}"
    write_failure(root, spec, reason, origin, "".join(traceback.format_exception(error)))
    return RunOutcome(spec.id, "failed", reason)
