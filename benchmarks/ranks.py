"""What watching costs where two ranks train one network: `python -m benchmarks ranks`.

Both ranks take turns of plain and of watched steps at the same time, so that one waits for the other as in training.
Combining readings is part of the watched turns: each is long enough for a block of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import kymograph as ky
from benchmarks.watching import NETWORKS
from kymograph._probes.readings import BLOCK

RANKS, TURNS, STEPS, LIMIT = 2, 8, BLOCK // 4, 1.10
"""Steps per turn: a full block of readings is combined in every fourth watched turn."""
LEVELS = ("light", "standard")


def bench_ranks() -> int:
    """Prints the table, and returns 1 if `light` is over its limit."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"{RANKS} ranks, {TURNS} turns of {STEPS} steps", file=sys.stderr, flush=True)
        torch.multiprocessing.spawn(_rank, (folder,), nprocs=RANKS)
        told = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]
    print("| watched at every step | clock of | plain | watched | plain = 1 | limit |\n|---|---|---|---|---|---|")
    exceeded = False
    for level in LEVELS:
        rows = [("wall", "both ranks", told[0])]
        rows += [("cpu", f"CPU, rank {rank}", theirs) for rank, theirs in enumerate(told)]
        for clock, name, theirs in rows:
            plain, watched = (theirs[f"{clock} {way}"] for way in ("plain", level))
            # Turns alternate, so that neighbours share the state of the machine.
            ratio = median(b / a for a, b in zip(plain, watched, strict=True))
            limit = LIMIT if (clock, level) == ("wall", "light") else None
            exceeded |= limit is not None and ratio > limit
            times = f"{1000 * median(plain):.1f} ms | {1000 * median(watched):.1f} ms"
            print(f"| {level} | {name} | {times} | {ratio:.3f} | {'' if limit is None else f'{limit:.2f}'} |")
    print(f"\nTransformer with 2.7M parameters in DistributedDataParallel (gloo), {RANKS} ranks of one thread each.")
    return int(exceeded)


def _rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    network = NETWORKS["watching-transformer"]
    torch.manual_seed(0)
    net = DistributedDataParallel(network.build())
    batches = [network.draw(torch.Generator().manual_seed(16 * rank + index)) for index in range(16)]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.001)
    probes = {level: ky.Probe(net, optimizer, level, every=1) for level in LEVELS}
    steps = dict.fromkeys(probes, 0)
    seconds: dict[str, list[float]] = {f"{clock} {way}": [] for clock in ("wall", "cpu") for way in ("plain", *LEVELS)}

    def train(step: int) -> None:
        x, y = batches[step % 16]
        optimizer.zero_grad()
        cross_entropy(net(x), y).backward()
        optimizer.step()

    def turn(way: str) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for step in range(STEPS):
            if way == "plain":
                train(step)
            else:
                with probes[way].step(steps[way]):
                    train(step)
                steps[way] += 1
        dist.barrier()
        return (time.perf_counter() - wall) / STEPS, (time.process_time() - cpu) / STEPS

    for number in range(-1, TURNS):
        for way in ("plain", *LEVELS) if number % 2 else (*reversed(LEVELS), "plain"):
            if way != "plain":
                probes[way].attach()
            wall, cpu = turn(way)
            if way != "plain":
                probes[way].suspend()  # with every=1 hooks stay attached between steps
            if number >= 0:
                seconds[f"wall {way}"].append(wall)
                seconds[f"cpu {way}"].append(cpu)
    for probe in probes.values():
        probe.detach()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(seconds))
    dist.destroy_process_group()
