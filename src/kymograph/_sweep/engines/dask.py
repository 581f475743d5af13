"""Computes the stacks on a Dask cluster: one that is started on this machine, or one that is already running.

Dask carries only the name of a function, an order as a JSON string and its outcomes as another. The stack of a lost
worker is given to another one, up to a set number of times; then the runs are recorded as failed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from kymograph._errors import KymographError, first_line
from kymograph._sweep.compute import RunOutcome, accelerators, import_torch
from kymograph._sweep.engines.base import EVERY, BeatProgress, record_death
from kymograph._sweep.orders import Order
from kymograph._sweep.progress import Follower
from kymograph._sweep.worker import carry_out
from kymograph._sweep.worker_process import child_environment, die_with_parent

PARTS = {
    "dask": {"attribute": "Engine", "about": "workers of a Dask cluster, on this machine or on others", "order": 3},
}

MOST_WAITING = 1000
"""The most orders with the scheduler at a time, which keeps them in memory."""
_HOST = "127.0.0.1"
_MOST_STARTS = 20
"""How often each worker's program may be started without an order ending, before that is an error."""
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Options:
    """Which Dask cluster computes."""

    scheduler: str | None = field(
        default=None,
        metadata={"metavar": "ADDRESS", "default": "Dask's own setting scheduler-address; else a new cluster here"},
    )
    """The address of a running scheduler, e.g. tcp://node0:8786."""
    retries: int = field(default=5, metadata={"metavar": "N"})
    """How often a new cluster here gives a stack whose worker died to another one; a running scheduler has its own
    setting for that (distributed.scheduler.allowed-failures, 3)."""
    dashboard: bool = False
    """Serve the dashboard of a cluster on this machine, at 127.0.0.1 only."""

    @property
    def address(self) -> str | None:
        """The address of a running scheduler; None: the sweep starts its own cluster."""
        return self.scheduler or _import_dask()[0].config.get("scheduler-address", None)

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may be on other machines."""
        return self.address is not None


class Engine:
    """Computes on a Dask cluster; ``workers`` is the size of a cluster that it starts itself."""

    options_type = Options

    def __init__(self, workers: int, options: Options) -> None:
        self.workers, self.options = workers, options

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes as it ends; closing the iterator stops unfinished work."""
        if not orders:
            return
        with contextlib.ExitStack() as stack:
            address, cluster = self.options.address, None
            if address is None:
                cluster = stack.enter_context(local_cluster(self.workers, self.options.retries, self.options.dashboard))
                address = cluster.address
            client = _client(address, expect_workers=cluster is None)
            stack.callback(client.close)
            yield from _computed(client, orders, follower, cluster)


def _computed(
    client: Any, orders: Sequence[Order], follower: Follower, cluster: LocalCluster | None
) -> Iterator[list[RunOutcome]]:
    """Yields each order's outcomes as a worker returns them."""
    devices = [] if cluster is None else accelerators(orders[0].device) or ["cpu"]
    progress, ended = BeatProgress(orders, follower), queue.SimpleQueue[Any]()
    futures: dict[Any, int] = {}
    waiting = list(enumerate(orders))[::-1]
    try:
        while waiting or futures:
            while waiting and len(futures) < MOST_WAITING:
                number, order = waiting.pop()
                text = json.dumps({"order": order.to_json(), "devices": devices})
                future = client.submit(carry_out_json, text, key=f"{order.stack.id}-{os.urandom(4).hex()}")
                futures[future] = number
                future.add_done_callback(ended.put)
            try:
                future = ended.get(timeout=EVERY)
            except queue.Empty:
                progress.update()
                if cluster is not None:
                    cluster.tend()
                continue
            if cluster is not None:
                cluster.starts = 0
            number = futures.pop(future)
            outcomes = _outcomes(future, orders[number])
            progress.ended(number)
            yield outcomes
    finally:
        if futures:
            with contextlib.suppress(Exception):  # a scheduler that is gone has nothing left to stop
                client.cancel(list(futures), force=True)


def _outcomes(future: Any, order: Order) -> list[RunOutcome]:
    """Returns the outcomes of an order; raises the error that its worker reported."""
    _, distributed = _import_dask()
    try:
        answer = json.loads(future.result())
    except distributed.KilledWorker as error:
        deaths = error.allowed_failures + 1
        return record_death(order, f"{deaths} workers died while computing it (KilledWorker); run again to retry")
    except distributed.CancelledError:
        raise KymographError("the Dask scheduler is gone; run the same command again to resume") from None
    except ModuleNotFoundError as error:
        raise KymographError(f"a Dask worker cannot compute: {error}; install kymograph there") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error, 'no message')}"
        raise KymographError(f"a Dask worker could not take an order: {reason}") from None
    if "error" in answer:
        raise KymographError(answer["error"])
    return [RunOutcome(**outcome) for outcome in answer["outcomes"]]


def carry_out_json(text: str) -> str:
    """Carries out an order in a Dask worker; both the order and its result are JSON."""
    from distributed import get_worker

    content = json.loads(text)
    order, devices, worker = Order.from_json(content["order"]), content["devices"], get_worker()
    if devices:  # the workers of the sweep's own cluster are numbered
        order = replace(order, device=devices[int(worker.name) % len(devices)])
    with _one_at_a_time:  # a worker with several threads would mix up modules, variables and heartbeats
        return json.dumps(carry_out(order, _Watch(worker, worker.get_current_task())))


class _Watch(Follower):
    """Stops the work when its task is cancelled: Dask itself cannot stop a running task."""

    def __init__(self, worker: Any, key: Any) -> None:
        self._worker, self._key, self._checked = worker, key, time.monotonic()

    def tick(self, steps: int) -> None:
        if time.monotonic() - self._checked > EVERY:
            self._checked = time.monotonic()
            task = self._worker.state.tasks.get(self._key)
            if task is None or task.state == "cancelled":
                raise _Cancelled


class _Cancelled(BaseException):
    """Not an `Exception`: the runs did not fail, and nothing is recorded."""


def _import_dask() -> tuple[Any, Any]:
    """Returns the modules dask and distributed; raises a KymographError naming the extra if they are not installed."""
    try:
        import dask
        import distributed
    except ImportError:
        raise KymographError("the engine 'dask' needs Dask; install it with pip install 'kymograph[dask]'") from None
    return dask, distributed


def _client(address: str, expect_workers: bool) -> Any:
    """Returns a client of the scheduler at an address, with the TLS settings of Dask's own configuration."""
    _, distributed = _import_dask()
    if address.startswith("tls:") and distributed.Security().get_connection_args("client").get("ssl_context") is None:
        raise KymographError(
            f"{address} requires TLS, but Dask's configuration names no certificates; see docs/clusters.md"
        )
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise KymographError(f"no Dask scheduler answers at {address}: {first_line(error)}") from None
    if expect_workers and not client.nthreads():
        print(f"note: the Dask scheduler at {address} has no worker yet; waiting for one", file=sys.stderr)
    return client


@contextlib.contextmanager
def local_cluster(workers: int, retries: int = 3, dashboard: bool = False) -> Iterator[LocalCluster]:
    """Starts a cluster on this machine's loopback interface that ends with this process, however that ends.

    The scheduler is a thread of this process. The workers are separate programs, which need no main guard.
    """
    dask, distributed = _import_dask()
    protocol = "tls" if dask.config.get("distributed.comm.require-encryption", None) else "tcp"
    options = {"host": _HOST, "protocol": protocol, "allowed_failures": retries, "dashboard": dashboard,
               "dashboard_address": f"{_HOST}:{8787 if dashboard else 0}"}  # fmt: skip
    scheduler = {"cls": distributed.Scheduler, "options": options}
    # A worker holds one order and prefetches none: a stack that kills its worker must not take another with it.
    with (
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        distributed.SpecCluster(scheduler=scheduler, name="kymograph", silence_logs=logging.CRITICAL) as served,
        tempfile.TemporaryFile("w+") as log,
    ):
        if dashboard:
            print(f"note: Dask's dashboard is at {served.dashboard_link}", file=sys.stderr)
        cluster = LocalCluster(served.scheduler_address, workers, log)
        try:
            cluster.tend()
            yield cluster
        finally:
            cluster.stop()


class LocalCluster:
    """The workers of a cluster on this machine: programs that restart their computing process when it dies."""

    def __init__(self, address: str, workers: int, log: IO[str]) -> None:
        self.address, self._log = address, log
        self._programs: list[subprocess.Popen[bytes] | None] = [None] * workers
        self.starts = 0
        """How many programs were started since the last order ended."""

    def tend(self) -> None:
        """Starts the programs that are not running: one ends if its worker dies before it has registered."""
        for number, program in enumerate(self._programs):
            if program is None or program.poll() is not None:
                if self.starts >= _MOST_STARTS * len(self._programs):
                    self._log.seek(0)
                    last = (self._log.read().strip().splitlines() or ["no message"])[-1]
                    raise KymographError(f"Dask's workers were started {self.starts} times and did nothing: {last}")
                self._programs[number] = self._start(number)
                self.starts += 1

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "dask", "worker", self.address, "--name", str(number), "--host", _HOST,
                   "--nthreads", "1", "--memory-limit", "0", "--no-dashboard",
                   "--dashboard-address", f"{_HOST}:0", "--preload-nanny", __name__,
                   "--preload", __name__]  # fmt: skip
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            env={**child_environment(), "DASK_LOGGING__DISTRIBUTED": "error"},
            start_new_session=True,  # the sweep handles Ctrl-C, and ends the programs
        )

    def stop(self) -> None:
        """Ends the programs; their computing processes end with them."""
        for program in filter(None, self._programs):
            program.kill()
            program.wait()


def dask_setup(process: Any) -> None:
    """Makes a worker's program end with the sweep, and prepares the worker; Dask calls this when either starts."""
    from distributed import Nanny

    if isinstance(process, Nanny):
        die_with_parent()
    else:
        import_torch()  # takes seconds, so it is done before the worker has an order to lose
