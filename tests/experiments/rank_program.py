"""A training that several ranks record, started by torchrun in tests; the variable FAULT says what goes wrong."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import kymograph as ky

STRATEGY, STEPS, OUT = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
FAULT = os.environ.get("FAULT", "none")  # not an argument: with another command line a run does not resume
ARGUMENTS = {"if_exists": "skip"} if FAULT == "skip" else {}


def network() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Dropout(0.2), nn.Linear(7, 3))
    if STRATEGY == "ddp":
        return nn.parallel.DistributedDataParallel(net)
    from torch.distributed.fsdp import fully_shard

    return fully_shard(net)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if FAULT == "absent" and rank == 1:
        time.sleep(60)
    if FAULT == "version" and rank == 1:
        from kymograph._runs.provenance import versions

        versions()["kymograph"] = "0.0.1"
    torch.manual_seed(rank)  # dropout differs
    seed = 42 + (FAULT == "other run") * rank
    with ky.record("ranks", arm=STRATEGY, seed=seed, config={"lr": 0.1}, out=OUT, **ARGUMENTS) as run:
        with run.seeded("weights"):
            net = network()
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        run.watch(net, optimizer, level="standard", every=2)
        run.resumable(model=net, optimizer=optimizer, every=5)
        for step in run.steps(STEPS):
            if rank == 1 and step == 7:
                if FAULT == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if FAULT == "raises":
                    raise ValueError("a bad sample")
            if FAULT == "interrupted" and step == 12:
                raise KeyboardInterrupt
            source = run.generator("batch", str(step), per_rank=True)
            x = torch.randn(8, 6, generator=source)
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
        if FAULT == "full disk" and rank == 0:
            from kymograph._experiments import recorded_loop

            def full(*_: object) -> None:
                raise ky.KymographError("cannot write to the disk: No space left on device; free some and try again")

            recorded_loop.store_record = full
        run.summary["steps"] = STEPS
    print(f"rank {rank} done: {type(run).__name__}")
    if FAULT == "destroyed":
        dist.destroy_process_group()


main()
