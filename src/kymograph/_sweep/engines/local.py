"""Computes the stacks on this machine: in this process, or in several worker processes."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kymograph._errors import KymographError
from kymograph._sweep.compute import RunOutcome, Workplace, accelerators, choose_device, compute, import_torch
from kymograph._sweep.engines.base import exit_reason, record_death
from kymograph._sweep.orders import Order
from kymograph._sweep.progress import Follower
from kymograph._sweep.rank_group import rank_group
from kymograph._sweep.worker import WORKER, check_here
from kymograph._sweep.worker_process import child_environment

PARTS = {
    "serial": {"attribute": "SerialEngine", "about": "this process, one stack after the other", "order": 1},
    "processes": {
        "attribute": "ProcessesEngine",
        "about": "several processes on this machine, a core or an accelerator each",
        "order": 2,
    },
}


class SerialEngine:
    """Computes in this process, with one worker whatever the number asked for."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = 1

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes in turn."""
        torch = import_torch()
        before = torch.get_num_threads()
        try:
            for order in orders:
                check_here(order)
                study = order.load_study()
                torch.set_num_threads(study.threads or before)
                device = choose_device(order.device)
                with rank_group(order, device):
                    outcomes = compute(study, order.stack, Workplace.of(order, device, follower))
                yield outcomes
        finally:
            torch.set_num_threads(before)


class ProcessesEngine:
    """Computes in ``workers`` processes.

    A worker that dies takes only its stack with it: those runs are recorded as failed, and a new worker takes over.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes as it ends; closing the iterator kills the workers."""
        waiting: queue.SimpleQueue[Order] = queue.SimpleQueue()
        for order in orders:
            waiting.put(order)
        # Assigned here: workers that chose for themselves could all share one accelerator.
        devices = (accelerators(orders[0].device) if orders else []) or ["cpu"]
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        each = orders[0].processes if orders else 1  # a run of several processes takes the accelerators that follow
        firsts = [devices[number * each % len(devices)] for number in range(self.workers)]
        pool = [_WorkerThread(waiting, answers, device) for device in firsts]
        try:
            for thread in pool:
                thread.start()
            left = len(orders)
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
            for thread in pool:
                thread.stop()


class _WorkerThread(threading.Thread):
    """Feeds one worker process, and replaces it if it dies."""

    def __init__(self, waiting: queue.SimpleQueue[Order], answers: queue.SimpleQueue[Any], device: str) -> None:
        super().__init__(daemon=True)
        self._waiting, self._answers, self._device = waiting, answers, device
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(self) -> None:
        try:
            while not self._stopped:
                try:
                    order = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._answers.put(self._compute(replace(order, device=self._device)))
        except BaseException as error:  # handed to the main thread, which raises it
            self._answers.put(error)

    def stop(self) -> None:
        """Ends the worker; what it was computing is lost, what it had stored is not."""
        self._stopped = True
        self._end_worker()

    def _end_worker(self) -> int:
        """Kills the worker if it is still running; returns its exit code."""
        if self._process is None:
            return 0
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # buffered data has no reader any more
                if pipe is not None:
                    pipe.close()
        return code

    def _compute(self, order: Order) -> list[RunOutcome]:
        if self._process is None:
            self._process = subprocess.Popen(
                WORKER,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**child_environment(), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # the pipe broke, or what came through it was cut off
            process.stdin.write(json.dumps(order.to_json()) + "\n")
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
                    return [RunOutcome(**outcome) for outcome in answer["outcomes"]]
        if self._stopped:
            return []
        code = self._end_worker()
        self._process = None
        return record_death(order, exit_reason(code))
