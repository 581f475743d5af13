"""Computing one stack: train, store, and turn whatever goes wrong into a recorded reason."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kymograph.errors import KymographError
from kymograph.runs.files import make_directory
from kymograph.runs.provenance import provenance
from kymograph.runs.record import RunResult, write_failure, write_record
from kymograph.runs.spec import RunSpec
from kymograph.sweep.heartbeat import Heart
from kymograph.sweep.plan import Stack


class Follower(Protocol):
    """Whoever watches the work, e.g. a progress bar."""

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        ...

    def say(self, text: str) -> None:
        """Shows how the run at work is doing."""
        ...


@dataclass(frozen=True)
class Workplace:
    """Where a stack is computed: the device, who follows the work, and where unfinished runs keep what they need."""

    device: str
    follower: Follower
    root: Path | None = None

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self.follower.tick(steps)

    def say(self, text: str) -> None:
        """Shows how the run at work is doing."""
        self.follower.say(text)

    def directory(self, spec: RunSpec) -> Path | None:
        """Returns a directory for what must survive a kill of this run, made if need be; None if nothing is stored."""
        if self.root is None:
            return None
        path = self.root / f"{spec.directory}.part"
        make_directory(path)
        return path


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


def compute(trainer: Trainer, stack: Stack, root: Path, device: str, follower: Follower) -> list[Outcome]:
    """Trains a stack and stores its missing runs.

    If the stack fails, its missing runs are tried one by one, so that one bad run costs only itself.
    """
    facts = provenance(device, import_torch().get_num_threads())
    started = time.perf_counter()
    try:
        with Heart(root, stack, follower) as heart:
            results = trainer.train(stack.specs, Workplace(device, heart, root))
            seconds = (time.perf_counter() - started) / len(stack.specs)
            for place, (spec, result, missing) in enumerate(zip(stack.specs, results, stack.missing, strict=True)):
                if missing:
                    where = {"stack": {"id": stack.id, "runs": len(stack.specs), "place": place}}
                    write_record(root, spec, result, {**facts, **where}, seconds)
                shutil.rmtree(root / f"{spec.directory}.part", ignore_errors=True)
    except Exception as error:
        if len(stack.specs) == 1:
            return [_fail(root, stack.specs[0], error, facts)]
        return [outcome for lone in _singles(stack) for outcome in compute(trainer, lone, root, device, follower)]
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
