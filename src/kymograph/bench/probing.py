"""An MLP with 100,000 parameters trained with and without a probe: what each level costs at every step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kymograph.probes.probe import ModuleProbe
from kymograph.probes.readings import ReadingTable

WIDTHS, SAMPLES, BATCH, STEPS, ROUNDS = (784, 112, 96, 10), 4096, 128, 64, 25
Step = Callable[[int], None]


def ratio(way: str, steps: int = STEPS, rounds: int = ROUNDS) -> tuple[float, float]:
    """Returns the seconds of ``steps`` steps of the plain loop and of the loop with ``way``, the least of all rounds.

    ``way`` is ``recording`` (the loss is kept at every step) or the level of a probe. Both loops go on in turns, in
    CPU time on one thread: what else the machine does is in neither.
    """
    least = {"plain": float("inf"), way: float("inf")}
    with _one_thread():
        loops = {name: training(name)[0] for name in least}
        for number in range(rounds):
            for name, loop in loops.items() if number % 2 else reversed(loops.items()):
                started = time.process_time()
                for step in range(number * steps, (number + 1) * steps):
                    loop(step)
                least[name] = min(least[name], time.process_time() - started)
    return least["plain"], least[way]


def training(way: str) -> tuple[Step, nn.Sequential]:
    """Returns a function that takes one training step, and the network that it trains."""
    draw = torch.Generator().manual_seed(0)
    net = _network(draw)
    x = torch.randn(SAMPLES, WIDTHS[0], generator=draw)
    y = torch.randint(0, WIDTHS[-1], (SAMPLES,), generator=draw)
    orders = [torch.randint(0, SAMPLES, (BATCH,), generator=draw) for _ in range(STEPS)]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)

    def plain(step: int) -> Tensor:
        batch = orders[step % STEPS]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        return loss

    def recorded(step: int) -> None:
        table.add(step, {("loss", "network"): plain(step).detach()})

    def probed(step: int) -> None:
        with probe.step(step):
            plain(step)

    if way == "plain":
        return lambda step: (plain(step), None)[1], net
    if way == "recording":
        table = ReadingTable()
        return recorded, net
    batch = (x[:BATCH], y[:BATCH]) if way == "deep" else None
    probe = ModuleProbe(net, optimizer, level=way, every=1, loss=_loss if batch else None, batch=batch)
    probe.attach()
    return probed, net


def _loss(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _network(draw: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * parameter.shape[-1] ** -0.5)
    return net
