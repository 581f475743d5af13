"""Modules and loops that other tools break on, each as a step function that trains a network."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

X = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
Y = torch.randint(0, 3, (12,), generator=torch.Generator().manual_seed(2))
Pair = namedtuple("Pair", "hidden logits")


@dataclass
class Parts:
    logits: Tensor
    extra: Tensor | None = None


class Returning(nn.Module):
    """Puts its output into a container."""

    def __init__(self, pack: Callable[[Tensor, Tensor], Any], get: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.body, self.head = Packed(pack), nn.Linear(8, 3)
        self.get = get

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.get(self.body(x)))


class Packed(nn.Module):
    def __init__(self, pack: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.weight, self.pack = nn.Parameter(torch.ones(6, 8) / 3), pack

    def forward(self, x: Tensor) -> Any:
        hidden = x @ self.weight
        return self.pack(hidden, hidden * 2)


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.cell, self.act, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            x = self.act(self.cell(x))
        return self.head(x)


class PartlyUsed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.used, self.unused = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(self.frozen(x))


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(8, 8))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.block, self.first(x), use_reentrant=self.reentrant))


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(2, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(x.view(len(x), 3, 2))).mean(1))


class OwnAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(2, 24), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x.view(len(x), 3, 2)).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(q, k, v).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x.view(len(x), 3, 2))[0][:, -1])


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(5, 8, sparse=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table((x[:, 0].abs() * 4).long().clamp(max=4)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Odd(nn.Module):
    """Puts out an object of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = OddLayer(), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x).value)


class OddLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 8) / 3)

    def forward(self, x: Tensor) -> Any:
        return type("Box", (), {"value": x @ self.weight})()


class Transformed(nn.Module):
    """Calls a layer inside torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.func.vmap(self.inner)(x))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


class CustomFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.doubling, self.head = nn.Linear(6, 8), Doubling(), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.doubling(self.first(x)))


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Double.apply(x)


class Chained(nn.Module):
    """Writes into its layers' outputs and views of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x += 1
        x = self.second(F.relu_(x))
        x[:, :2].mul_(0.5)
        return self.head(x)


def images() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(8, 3),
    )  # fmt: skip


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def scripted() -> nn.Module:
    return nn.Sequential(torch.jit.trace(nn.Linear(6, 8), X), nn.ReLU(), nn.Linear(8, 3))


def normed() -> nn.Module:
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), parametrizations.spectral_norm(nn.Linear(8, 3))
    )


def half() -> nn.Module:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 8).bfloat16(), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x.bfloat16()).float())

    return Mixed()


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "plain": plain,
    "in-place": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    "written into": Chained,
    "dict": lambda: Returning(lambda a, b: {"a": a, "b": [b]}, lambda out: out["a"]),
    "tuple": lambda: Returning(lambda a, b: (a, b), lambda out: out[1]),
    "one in a tuple": lambda: Returning(lambda a, b: (a, None), lambda out: out[0]),
    "namedtuple": lambda: Returning(Pair, lambda out: out.hidden),
    "dataclass": lambda: Returning(Parts, lambda out: out.logits),
    "repeated": Repeated,
    "frozen and unused": PartlyUsed,
    "checkpointed": lambda: Checkpointed(False),
    "checkpointed, re-entrant": lambda: Checkpointed(True),
    "attention": Attending,
    "own attention": OwnAttention,
    "recurrent": Recurrent,
    "sparse": Sparse,
    "tied": Tied,
    "images": images,
    "wrapped": lambda: nn.DataParallel(plain()),
    "parametrized": normed,
    "traced": scripted,
    "several types": half,
    "odd": Odd,
    "torch.func": Transformed,
    "custom function": CustomFunction,
}


def loss_of(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(net(batch[0]), batch[1])


def ordinary(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss_of(net, (X, Y)).backward()
    optimizer.step()


def accumulating(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    for part in range(3):
        rows = slice(4 * part, 4 * part + 4)
        (loss_of(net, (X[rows], Y[rows])) / 3).backward()
    optimizer.step()


def autocast(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(net, (X, Y))
    loss.backward()
    optimizer.step()


def clipped(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss_of(net, (X, Y)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.01)
    optimizer.step()


def evaluating(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    ordinary(net, optimizer)
    with torch.no_grad():
        net(X * 100)


def retaining(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss = loss_of(net, (X, Y))
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()


def penalised(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss = loss_of(net, (X, Y))
    slopes = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
    (loss + 0.1 * sum(slope.square().sum() for slope in slopes)).backward()
    optimizer.step()


LOOPS: dict[str, Callable[[nn.Module, torch.optim.Optimizer], None]] = {
    "ordinary": ordinary,
    "accumulating": accumulating,
    "autocast": autocast,
    "clipped": clipped,
    "evaluating": evaluating,
    "retaining": retaining,
    "penalised": penalised,
}


def made(name: str, seed: int = 0) -> nn.Module:
    """Returns the network called ``name``, always with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return NETWORKS[name]()


def trained(
    net: nn.Module, loop: str = "ordinary", steps: int = 200, probe: Any = None, lr: float = 0.05
) -> Iterator[nn.Module]:
    """Trains ``net`` and yields it after every step; ``probe(net, optimizer)`` makes the probe."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    attached = None if probe is None else probe(net, optimizer)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        for step in range(steps):
            if attached is None:
                LOOPS[loop](net, optimizer)
            else:
                with attached.step(step):
                    LOOPS[loop](net, optimizer)
            yield net
