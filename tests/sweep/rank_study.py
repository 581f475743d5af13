"""A study whose runs are trained by two processes each; the setting ``fault`` says what goes wrong in the second."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn

import kymograph as ky

if os.environ.get("RANK") == "1" and os.environ.get("KYMOGRAPH_TEST_CANNOT_START"):
    sys.exit("no such library")


@ky.study(question="Do ranks agree?", arms={"slow": {"lr": 0.05}, "fast": {"lr": 0.2}}, processes=2)
def pair(run: ky.ActiveRun, *, lr: float = 0.05, steps: int = 12, fault: str = "") -> dict[str, object]:
    with run.seeded("weights"):
        net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    run.watch(net, optimizer, every=2)
    shared, own = run.generator("shared"), run.generator("own", per_rank=True)
    draws = torch.stack([torch.randn((), generator=shared), torch.randn((), generator=own)])
    every_draw = [torch.empty_like(draws) for _ in range(2)]
    dist.all_gather(every_draw, draws)
    for step in run.steps(steps):
        if dist.get_rank() == 1 and step == 5 and fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if dist.get_rank() == 1 and step == 5 and fault == "raise":
            raise ValueError("a bad sample")
        x = torch.randn(8, 4, generator=run.generator("batch", str(step), per_rank=True))
        optimizer.zero_grad()
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
    first, second = (one.tolist() for one in every_draw)
    return {
        "loss": loss,
        "world": int(os.environ["WORLD_SIZE"]),
        "shared is shared": first[0] == second[0],
        "own is own": first[1] != second[1],
    }
