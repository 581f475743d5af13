"""A process group for one run: the process that computes it is rank 0, and starts the others on its machine.

Every rank has torchrun's environment variables and is in an initialised process group, as under torchrun. Rank 0 stores
the run; the others train their part and end. They are started with the same order, as workers are, and die with rank 0.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError, first_line
from kymograph._io.documents import parse_json
from kymograph._io.files import read_bytes
from kymograph._sweep.compute import Workplace, choose_device, import_torch
from kymograph._sweep.orders import Order
from kymograph._sweep.progress import Follower
from kymograph._sweep.worker_process import child_environment, die_with_parent, environment

_PEER = (sys.executable, "-P", "-m", "kymograph._sweep.rank_group")
_HERE = "127.0.0.1"
_SECONDS_TO_START, _SECONDS_TO_END = 120.0, 10.0
_MOST_BYTES = 2**24
"""Of what a rank has printed before it could start."""


@contextlib.contextmanager
def rank_group(order: Order, device: str) -> Iterator[None]:
    """Makes this process rank 0 of the group that computes an order, if its study asks for several processes."""
    if order.processes < 2:
        yield
        return
    import torch.distributed as dist

    if dist.is_initialized():
        raise KymographError(
            f"the study starts {order.processes} processes for each run, and this one is in a process group already; "
            "run it without torchrun"
        )
    store = _stores().TCPStore(_HERE, 0, order.processes, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{rank}" for rank in range(1, order.processes)]
        peers = [_start(order, rank, store.port, log) for rank, log in enumerate(logs, start=1)]
        try:
            _wait_for(peers, logs, store)
            with environment(_variables(0, order.processes, store.port)):
                _join(store, 0, order.processes, device)
                try:
                    yield
                finally:
                    dist.destroy_process_group()
                _end(peers)
        finally:
            for peer in peers:
                peer.kill()
                peer.wait()


def _stores() -> Any:
    import torch.distributed

    return torch.distributed  # which does not export its stores to type checkers


def _variables(rank: int, size: int, port: int) -> dict[str, str]:
    """Returns what torchrun tells its processes."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {"MASTER_ADDR": _HERE, **{name: str(number) for name, number in numbers.items()}}


def _start(order: Order, rank: int, port: int, log: Path) -> subprocess.Popen[bytes]:
    variables = {**child_environment(), **_variables(rank, order.processes, port)}
    with log.open("wb") as errors:
        peer = subprocess.Popen(
            _PEER, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=variables
        )  # fmt: skip
    assert peer.stdin is not None
    with contextlib.suppress(BrokenPipeError), peer.stdin as pipe:  # one that cannot start is noticed below
        pipe.write(json.dumps(order.to_json()).encode())
    return peer


def _wait_for(peers: list[subprocess.Popen[bytes]], logs: list[Path], store: Any) -> None:
    """Returns when every rank has started; raises if one ends before, or takes too long."""
    until = time.monotonic() + _SECONDS_TO_START
    for rank, (peer, log) in enumerate(zip(peers, logs, strict=True), start=1):
        while not store.check([f"started/{rank}"]):
            if peer.poll() is not None or time.monotonic() > until:
                lines = read_bytes(log, _MOST_BYTES).decode(errors="replace").split("\n")
                why = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
                how = "did not start in time" if peer.returncode is None else f"ended with code {peer.returncode}"
                raise KymographError(f"rank {rank} of {len(peers) + 1} {how}: {why}")
            time.sleep(0.05)


def _join(store: Any, rank: int, size: int, device: str) -> None:
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, store=_stores().PrefixStore("group", store), rank=rank, world_size=size)


def _end(peers: list[subprocess.Popen[bytes]]) -> None:
    """Waits a while for the ranks to end by themselves, now that the run is over."""
    until = time.monotonic() + _SECONDS_TO_END
    for peer in peers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            peer.wait(max(until - time.monotonic(), 0.0))


def _device(order: Order, rank: int) -> str:
    """Returns the device of a rank: the accelerators after that of rank 0, one each."""
    device = choose_device(order.device)
    if not device.startswith("cuda"):
        return device
    first = int(device.partition(":")[2] or 0)
    return f"cuda:{(first + rank) % import_torch().cuda.device_count()}"


def main() -> None:
    """Trains one rank's part of the order on standard input."""
    die_with_parent()
    order = Order.from_json(parse_json(sys.stdin.buffer.read()))
    rank, size = int(os.environ.get("RANK", "")), int(os.environ.get("WORLD_SIZE", ""))
    import_torch().set_num_threads(1)
    import torch.distributed as dist

    from kymograph._probes.distributed import ranks_here

    with environment(order.environment):
        study = order.load_study(as_ordered=True)
        device = _device(order, rank)
        patience = datetime.timedelta(seconds=_SECONDS_TO_START)
        store = _stores().TCPStore(
            _HERE, int(os.environ.get("MASTER_PORT", "")), size, is_master=False, timeout=patience
        )
        store.set(f"started/{rank}", "")
        _join(store, rank, size, device)
        try:
            study.train([study.typed(spec) for spec in order.stack.specs], Workplace.of(order, device, Follower()))
        except BaseException as error:
            if (ranks := ranks_here()) is not None:
                ranks.tell_failure(error)
            sys.exit(first_line(error, type(error).__name__))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
