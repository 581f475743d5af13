"""Computing one stack: train, store, and turn whatever goes wrong into a recorded reason."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kymograph.errors import KymographError
from kymograph.runs.provenance import provenance
from kymograph.runs.record import RunResult, make_directory, write_failure, write_record
from kymograph.runs.spec import RunSpec
from kymograph.sweep.plan import Stack

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Workplace:
    """Where a stack is computed: the device, the bar that follows it, and the directory of each run."""

    device: str
    tick: Tick
    """Called with the number of steps just done."""
    root: Path | None = None

    def directory(self, spec: RunSpec) -> Path | None:
        """Returns the run's own directory, made if need be, for what must survive a kill; None if nothing is stored."""
        if self.root is None:
            return None
        path = self.root / spec.directory
        make_directory(path)
        return path

    def say(self, text: str) -> None:
        """Shows a line about the run at work beside the progress bar."""
        say = getattr(self.tick, "say", None)
        if say is not None:
            say(text)


class Trainer(Protocol):
    """The part of a study that computing needs."""

    threads: ClassVar[int | None]

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains ``specs`` together."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    run: str
    status: str
    reason: str | None = None


def import_torch() -> Any:
    """Returns torch, imported without collecting garbage meanwhile: it allocates much and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        import torch
    finally:
        if enabled:
            gc.enable()
    return torch


def check_device(device: str) -> None:
    """Raises if ``device`` is not the name of any device; needs no torch."""
    if device.split(":")[0] not in ("auto", "cpu", "cuda", "mps"):
        raise KymographError(f"there is no device {device!r}; use auto, cpu, cuda or mps")


def choose_device(device: str) -> str:
    """Returns the torch device for ``auto``, ``cpu``, ``cuda`` or ``mps``; raises if there is none of that kind."""
    check_device(device)
    torch = import_torch()
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if available[name])
    if not available[device.split(":")[0]]:
        raise KymographError(f"this machine has no {device!r} device; use --device cpu")
    return device


def compute(trainer: Trainer, stack: Stack, root: Path, device: str, tick: Tick) -> list[Outcome]:
    """Trains a stack and stores its missing runs.

    If the stack fails, its missing runs are tried one by one, so that one bad run costs only itself.
    """
    facts = provenance(device, import_torch().get_num_threads())
    started = time.perf_counter()
    try:
        results = trainer.train(stack.specs, Workplace(device, tick, root))
        seconds = (time.perf_counter() - started) / len(stack.specs)
        for place, (spec, result, missing) in enumerate(zip(stack.specs, results, stack.missing, strict=True)):
            if missing:
                where = {"stack": {"id": stack.id, "runs": len(stack.specs), "place": place}}
                write_record(root, spec, result, {**facts, **where}, seconds)
    except Exception as error:
        if len(stack.specs) == 1:
            return [_fail(root, stack.specs[0], error, facts)]
        return [outcome for lone in _singles(stack) for outcome in compute(trainer, lone, root, device, tick)]
    return [Outcome(spec.id, "finished") for spec in stack.specs]


def _singles(stack: Stack) -> list[Stack]:
    pairs = zip(stack.specs, stack.missing, strict=True)
    return [Stack((spec,), (True,), stack.steps) for spec, missing in pairs if missing]


def _fail(root: Path, spec: RunSpec, error: Exception, facts: Mapping[str, Any]) -> Outcome:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else "no message"
    reason = text if isinstance(error, KymographError) else f"{type(error).__name__}: {text}"
    write_failure(root, spec, reason, facts)
    return Outcome(spec.id, "failed", reason)
