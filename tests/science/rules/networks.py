"""One small case of every kind of network that a rule can act on, in float64, with a batch for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kymograph_studies.models import draw_model
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.models.cut import cut
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.models.replicas import (
    LayerStack,
    NextToken,
    TokenBatch,
    TokenTargets,
    Wiring,
    initial_layers,
    initial_weights,
)
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule, Setup
from kymograph_studies.rules.losses import Loss, replica_cross_entropy, replica_squared_error
from tests.science.rules import drifting

CLASSES, SIZE = 5, 6


class Case(NamedTuple):
    """A network with the loss it is trained with and a batch of data."""

    net: nn.Module
    x: Any
    y: Any
    loss: Loss | None = None

    def rule(self, name: str, *, fast: bool = True, seed: int = 5, **options: Any) -> Rule:
        """Returns a rule on this network, its feedback drawn from ``seed``."""
        example = self.x[:2] if isinstance(self.x, Tensor) else self.x
        if name == drifting.PART["name"]:
            return drifting.build(self.net, Setup(self.loss, generator(seed), example))
        return make(name, self.net, loss=self.loss, generator=generator(seed), example=example, fast=fast, **options)


def generator(seed: int) -> torch.Generator:
    """Returns a fresh generator."""
    return torch.Generator().manual_seed(seed)


def images(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns a batch of small images and their labels."""
    draw = generator(seed)
    return (
        torch.randn(SIZE, 2, 8, 8, generator=draw, dtype=torch.float64),
        torch.randint(0, CLASSES, (SIZE,), generator=draw),
    )


def shaken(net: nn.Module) -> nn.Module:
    """Moves every parameter a little: norms of one and zero would hide what is wrong with theirs."""
    draw = generator(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
    return net


def _model(name: str, **settings: Any) -> Callable[[], Case]:
    def build() -> Case:
        net = draw_model(name, 2, 8, CLASSES, generator(2), depth=3, width=8, **settings).double()
        FlatNetwork(shaken(net))
        return Case(net, *images())

    return build


def _sequential() -> Case:
    draw = generator(4)
    layers = [nn.Flatten(), nn.Linear(128, 9), nn.Tanh(), nn.Linear(9, 7), nn.Linear(7, 6), nn.ReLU()]
    net = cut(nn.Sequential(*layers, nn.Linear(6, CLASSES))).double()
    initialise(net, draw)
    return Case(net, *images())


def _convolutions() -> Case:
    blocks = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()) for _ in range(2)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    net = cut(nn.Sequential(nn.Conv2d(2, 4, 3), *blocks, head), blocks=["1", "2"]).double()
    initialise(net, generator(6))
    return Case(shaken(net), *images())


def _next_token() -> Case:
    net, draw = NextToken(3, CLASSES, 4), generator(7)
    for replica in range(3):
        net.flat.fill(replica, initial_weights(replica, CLASSES, 4))
    net.double()
    x, y = torch.randint(0, CLASSES, (2, 3, SIZE), generator=draw)
    classes = torch.arange(CLASSES)
    tokens = TokenBatch(x[..., None].expand(*x.shape, 4), (x[:, None] == classes[:, None]).double())
    return Case(net, tokens, TokenTargets(y.reshape(-1), (y[..., None] == classes).double()), replica_cross_entropy)


def _layer_stack() -> Case:
    net = LayerStack(3, 6, Wiring((None, 0.5)))
    for replica in range(2):
        net.flat.fill(replica, initial_layers(replica, 3, 6))
    x, y = torch.randn(2, 2, SIZE, 6, generator=generator(8), dtype=torch.float64)
    return Case(shaken(net.double()), x, y, replica_squared_error)


CASES: dict[str, Callable[[], Case]] = {
    "resmlp": _model("resmlp", w2_std=0.3),
    "resmlp, no skip": _model("resmlp", w2_std=0.3, skip=False),
    "resmlp, no out_ln": _model("resmlp", w2_std=0.3, out_ln=False, expansion=2),
    "vit": _model("vit"),
    "conv": _model("conv"),
    "sequential": _sequential,
    "convolutions with BatchNorm": _convolutions,
    "next token": _next_token,
    "layer stack": _layer_stack,
}


def blocks_of(net: nn.Module) -> BlockNetwork:
    """Returns ``net``, which is cut into blocks."""
    assert isinstance(net, BlockNetwork)
    return net
