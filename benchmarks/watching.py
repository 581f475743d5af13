"""An MLP trained for some steps, watched and unwatched: the norms of every layer and of its gradient, every step."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from kymograph_studies.analysis.flow import watching

STEPS, ROUNDS, BATCH, INPUTS, WIDTH, DEPTH, CLASSES = 100, 9, 128, 784, 256, 4, 10


def train(watched: bool, steps: int = STEPS) -> tuple[float, list[Tensor], Tensor]:
    """Returns the seconds, the trained weights and the readings, (steps, 2 * layers), of a loop in plain torch."""
    draw = torch.Generator().manual_seed(0)
    net = _network(draw)
    x = torch.randn(BATCH, INPUTS, generator=draw)
    y = torch.randint(0, CLASSES, (BATCH,), generator=draw)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    layers = {str(index): layer for index, layer in enumerate(net) if isinstance(layer, nn.Linear)}
    norm, rows = {"norm": torch.linalg.vector_norm}, []
    with ExitStack() as attached:
        readings = attached.enter_context(watching(layers, norm, norm)) if watched else None
        started = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if readings is not None:
                rows += [readings.outputs[name]["norm"] for name in layers]
                rows += [readings.gradients[name]["norm"] for name in layers]
        table = torch.stack(rows).view(steps, -1) if rows else torch.empty(steps, 0)
        return time.perf_counter() - started, [parameter.detach() for parameter in net.parameters()], table


def least(watched: bool) -> float:
    """Returns the fewest seconds of several rounds: other load on the machine adds more than the tenth in question."""
    return min(train(watched)[0] for _ in range(ROUNDS))


def _network(draw: torch.Generator) -> nn.Sequential:
    widths = [INPUTS, *[WIDTH] * DEPTH]
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.ReLU(inplace=True)]
    net = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * parameter.shape[-1] ** -0.5)
    return net
