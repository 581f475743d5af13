"""Who computes the stacks: this process, or several worker processes.

An engine takes stacks and yields, for each, the outcomes of its runs. Nothing else crosses: results go to disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.provenance import provenance
from kymograph.runs.record import is_finished, write_failure
from kymograph.sweep.compute import Follower, Outcome, Trainer, choose_device, compute, import_torch
from kymograph.sweep.plan import Stack

ENGINES = ("auto", "serial", "processes")


def choose_engine(name: str, stacks: int, workers: int | None) -> tuple[str, int]:
    """Returns the engine's name and number of workers; ``auto`` uses processes if there is work for several."""
    if name not in ENGINES:
        raise KymographError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)}")
    if workers is not None and workers < 1:
        raise KymographError(f"workers must be at least 1, not {workers}")
    count = min(workers or os.cpu_count() or 1, max(stacks, 1))
    if name == "auto":
        name = "processes" if count > 1 else "serial"
    return name, count


def serial(
    study: Trainer, stacks: Sequence[Stack], root: Path, device: str, follower: Follower
) -> Iterator[list[Outcome]]:
    """Computes the stacks one after the other in this process."""
    torch = import_torch()
    chosen = choose_device(device)
    before = torch.get_num_threads()
    torch.set_num_threads(study.threads or before)
    try:
        for stack in stacks:
            yield compute(study, stack, root, chosen, follower)
    finally:
        torch.set_num_threads(before)


def processes(
    study: str, stacks: Sequence[Stack], root: Path, device: str, follower: Follower, workers: int
) -> Iterator[list[Outcome]]:
    """Computes the stacks in ``workers`` processes of one torch thread each.

    A worker that dies takes only its stack with it: those runs are recorded as failed and a new worker goes on.
    """
    waiting: queue.SimpleQueue[Stack | None] = queue.SimpleQueue()
    for stack in stacks:
        waiting.put(stack)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool = [_Hand(study, waiting, answers, root, device) for _ in range(workers)]
    try:
        for hand in pool:
            hand.start()
        left = len(stacks)
        while left:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, int):
                follower.tick(answer)
            elif isinstance(answer, str):
                follower.say(answer)
            else:
                left -= 1
                yield answer
    finally:
        for hand in pool:
            hand.stop()


class _Hand(threading.Thread):
    """Feeds one worker process, and replaces it if it dies."""

    def __init__(
        self, study: str, waiting: queue.SimpleQueue, answers: queue.SimpleQueue, root: Path, device: str
    ) -> None:
        super().__init__(daemon=True)
        self._study, self._waiting, self._answers = study, waiting, answers
        self._root, self._device = root, device
        self._process: subprocess.Popen | None = None
        self._stopped = False

    def run(self) -> None:
        try:
            while not self._stopped:
                try:
                    stack = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._answers.put(self._compute(stack))
        except BaseException as error:  # handed to the main thread, which raises it
            self._answers.put(error)

    def stop(self) -> None:
        """Ends the worker; what it was computing is lost, what it had stored is not."""
        self._stopped = True
        self._end_worker()

    def _end_worker(self) -> int:
        """Kills the worker if it still lives; returns its exit code."""
        if self._process is None:
            return 0
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what was still buffered has no reader any more
                if pipe is not None:
                    pipe.close()
        return code

    def _compute(self, stack: Stack) -> list[Outcome]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kymograph.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        order = {
            "study": self._study,
            "stack": stack.to_json(),
            "root": str(self._root),
            "device": self._device,
        }
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                answer = json.loads(line)
                if "steps" in answer:
                    self._answers.put(answer["steps"])
                elif "say" in answer:
                    self._answers.put(answer["say"])
                elif "error" in answer:
                    raise KymographError(answer["error"])
                else:
                    return [Outcome(**outcome) for outcome in answer["outcomes"]]
        except (BrokenPipeError, ValueError, OSError):
            if self._stopped:
                return []
        return [] if self._stopped else self._died(stack)

    def _died(self, stack: Stack) -> list[Outcome]:
        code = self._end_worker()
        self._process = None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        reason = f"the worker process died ({how}); run again to retry"
        outcomes = []
        for spec, missing in zip(stack.specs, stack.missing, strict=True):
            if missing and not is_finished(self._root, spec):
                write_failure(self._root, spec, reason, provenance(self._device, 1))
                outcomes.append(Outcome(spec.id, "failed", reason))
        return outcomes
