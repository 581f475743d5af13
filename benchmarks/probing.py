"""An MLP trained with and without a probe: what each level of the probe costs per step."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from kymograph.experiments.recorded_loop import record
from kymograph.probes.probe import Probe

SMALL, WIDE = (784, 112, 96, 10), (784, 256, 256, 256, 256, 10)
"""About 100,000 parameters; and the network on which other tools were measured, with 400,000."""
SAMPLES, BATCH, STEPS, ROUNDS = 4096, 128, 8, 200
Step = Callable[[int], object]


def ratio(
    way: str,
    threads: int | None = 1,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    widths: tuple[int, ...] = SMALL,
) -> tuple[float, float]:
    """Returns the seconds of a step of the plain loop, and of the loop with ``way``.

    ``way`` is ``recording`` (the loss is logged in a recorded run) or the level of a probe; either acts at every step.
    The loops alternate, each with ``steps`` timed steps after two untimed ones. Their ratio is the median of the ratios
    of all rounds, because other load on the machine affects both loops, or single rounds.

    Args:
        way: what is compared with the plain loop.
        threads: 1: CPU time of the loop's thread; None: torch's default, and wall-clock time.
        steps: timed steps of each loop in a round.
        rounds: how many times both are timed.
        widths: the widths of the MLP, from the input to the output.
    """
    clock = time.perf_counter if threads is None else time.thread_time
    seconds: dict[str, list[float]] = {"plain": [], way: []}
    with _threads(threads), ExitStack() as cleanup:
        loops = {name: training(name, cleanup, widths)[0] for name in seconds}
        for number in range(-2, rounds):
            for name, loop in loops.items() if number % 2 else reversed(loops.items()):
                first = (number + 2) * (steps + 2)
                for step in range(first, first + 2):  # not timed: the cache holds the data of the other loop
                    loop(step)
                started = clock()
                for step in range(first + 2, first + 2 + steps):
                    loop(step)
                if number >= 0:
                    seconds[name].append((clock() - started) / steps)
    plain = statistics.median(seconds["plain"])
    return plain, plain * statistics.median(a / b for a, b in zip(seconds[way], seconds["plain"], strict=True))


def training(way: str, cleanup: ExitStack, widths: tuple[int, ...] = SMALL) -> tuple[Step, nn.Sequential]:
    """Returns a function that takes one training step, and the network that it trains."""
    draw = torch.Generator().manual_seed(0)
    net = _network(draw, widths)
    x = torch.randn(SAMPLES, widths[0], generator=draw)
    y = torch.randint(0, widths[-1], (SAMPLES,), generator=draw)
    orders = [torch.randint(0, SAMPLES, (BATCH,), generator=draw) for _ in range(64)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)

    def plain(step: int) -> Tensor:
        batch = orders[step % len(orders)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        return loss

    def recorded(step: int) -> None:
        next(counted)  # ends the previous step and begins this one
        run.log(loss=plain(step))

    def probed(step: int) -> None:
        with probe.step(step):
            plain(step)

    if way == "plain":
        return plain, net
    if way == "recording":
        directory = cleanup.enter_context(tempfile.TemporaryDirectory())
        run = cleanup.enter_context(record("bench", arm="plain", seed=0, out=directory, device="cpu"))
        counted = run.steps(itertools.count())
        return recorded, net
    batch = (x[:BATCH], y[:BATCH]) if way == "deep" else None
    probe = Probe(net, optimizer, level=way, every=1, loss=_loss if batch else None, batch=batch)
    cleanup.enter_context(probe)
    return probed, net


def _loss(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _network(draw: torch.Generator, widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * parameter.shape[-1] ** -0.5)
    return net
