"""Computes one stack: trains it, then stores its runs; a failure of training is recorded with its reason."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from kymograph.errors import KymographError
from kymograph.runs.files import make_directory
from kymograph.runs.processes import remove_abandoned_files
from kymograph.runs.provenance import provenance
from kymograph.runs.record import PackedRecord, RunResult, pack_record, store_record, write_failure
from kymograph.runs.spec import RunSpec, slug
from kymograph.sweep.devices import import_torch
from kymograph.sweep.heartbeat import Heartbeat
from kymograph.sweep.plan import Stack


class Follower(Protocol):
    """Receives progress, e.g. a progress bar."""

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        ...

    def say(self, text: str) -> None:
        """Shows the current run's progress in words."""
        ...


@dataclass(frozen=True)
class Workplace:
    """Where a stack is computed: device, data, follower, and the directory of runs and their resume states."""

    device: str
    follower: Follower
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

    def directory(self, spec: RunSpec) -> Path | None:
        """Returns a directory, created if necessary, for this run's resume state; None if nothing is stored."""
        if self.root is None:
            return None
        path = self.root / f"{spec.directory}.part"
        make_directory(path, self.root)
        return path


class Trainer(Protocol):
    """The part of a study that `compute` needs."""

    threads: int | None

    def typed(self, spec: RunSpec) -> RunSpec:
        """Returns ``spec`` with the study's own configuration; raises if its source is not the study's."""
        ...

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
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
    facts = {**provenance(work.device, import_torch().get_num_threads()), "log": list(work.log)}
    started = time.perf_counter()
    remove_abandoned_files(work.root / slug(stack.specs[0].study), work.root)
    with Heartbeat(work.root, stack, work.follower) as heart:
        try:
            results = trainer.train(specs, replace(work, follower=heart))
            records = _packed(stack, results, facts)
        except (Exception, SystemExit) as error:  # a study that calls `sys.exit` must not end the sweep
            failed = error
        else:
            seconds = (time.perf_counter() - started) / len(stack.specs)
            for spec, record in records:
                store_record(work.root, spec, record, seconds)
            for spec in stack.specs:
                shutil.rmtree(work.root / f"{spec.directory}.part", ignore_errors=True)
            return [RunOutcome(spec.id, "finished") for spec in stack.specs]
    if len(stack.specs) == 1:
        return [record_failure(work.root, stack.specs[0], failed, facts)]
    return [outcome for single in _singles(stack) for outcome in compute(trainer, single, work)]


def _packed(stack: Stack, results: Sequence[RunResult], facts: Mapping[str, Any]) -> list[tuple[RunSpec, PackedRecord]]:
    """Returns the records of the stack's missing runs, ready to be written."""
    records = []
    for index, (spec, result, missing) in enumerate(zip(stack.specs, results, stack.missing, strict=True)):
        if missing:
            position = {"stack": {"id": stack.id, "runs": len(stack.specs), "place": index}}
            records.append((spec, pack_record(spec, result, {**facts, **position})))
    return records


def _singles(stack: Stack) -> list[Stack]:
    pairs = zip(stack.specs, stack.missing, strict=True)
    return [Stack((spec,), (True,), stack.steps) for spec, missing in pairs if missing]


def record_failure(root: Path, spec: RunSpec, error: BaseException, facts: Mapping[str, Any]) -> RunOutcome:
    """Records that a run failed, with the error as its reason and its traceback; returns the outcome."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else "no message"
    reason = text if isinstance(error, KymographError) else f"{type(error).__name__}: {text}"
    write_failure(root, spec, reason, facts, "".join(traceback.format_exception(error)))
    return RunOutcome(spec.id, "failed", reason)
