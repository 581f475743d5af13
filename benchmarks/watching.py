"""What watching a network costs: its own loop plain, with hooks written by hand, recorded, and with a probe.

The ways take turns in one process, a few steps at a time. Times are CPU times of the loop's thread, with torch on one
thread, and of each way the least over all rounds counts, because other load on the machine only adds. The networks are
a 2.7M-parameter Transformer and a small ResNet, whose steps take about as long as those of real experiments on a CPU,
and MLPs with steps so short that every microsecond of a hook shows.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import kymograph as ky

PLAIN, BY_HAND, RECORDING = "plain", "hooks by hand", "recording"
ABOUT = {
    BY_HAND: "hooks written by hand: norms of outputs, gradients, weights and updates",
    RECORDING: "`run.log(loss=loss)` in a recorded run",
    "light": "a probe at level `light`",
    "standard": "a probe at level `standard`",
    "deep": "a probe at level `deep`",
}
Step = Callable[[int], object]


# The networks, in plain torch.


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the mixed tokens, (batch, length, width)."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    """Attention and a two-layer perceptron, each behind a LayerNorm and added to the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the stream after this block, (batch, length, width)."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A decoder-only language model over characters; 2.7 million parameters by default."""

    def __init__(self, depth: int = 6, width: int = 192, heads: int = 6, tokens: int = 65, length: int = 128) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the logits of every next token, (batch, tokens, length)."""
        stream = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(stream))).transpose(1, 2)


class ResidualBlock(nn.Module):
    """Two convolutions with batch norm, added to the input, or to a strided 1 x 1 convolution of it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Returns the features after this block, (batch, outputs, height, width)."""
        return self.relu(self.skip(x) + self.branch(x))


def resnet(widths: Sequence[int] = (16, 32, 64), blocks: int = 3) -> nn.Sequential:
    """Returns a residual network for images of 32 x 32; by default the ResNet-20 of CIFAR-10."""
    first = widths[0]
    stem = (nn.Conv2d(3, first, 3, 1, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU())
    channels = [first, *(width for width in widths for _ in range(blocks))]
    stages = (ResidualBlock(inputs, outputs) for inputs, outputs in itertools.pairwise(channels))
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def mlp(*widths: int) -> nn.Sequential:
    """Returns linear layers of these widths, from input to output, with ReLUs between them."""
    layers = [layer for pair in itertools.pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


# What is measured.


@dataclass(frozen=True)
class Network:
    """A network, its batches, and the ways in which it is watched, with the most that each may cost."""

    about: str
    build: Callable[[], nn.Module]
    draw: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    """Returns a batch."""
    limits: Mapping[str, float | None]
    """By way of watching, the most that a step may take relative to a plain one; None: no limit."""
    steps: int = 8
    """Steps of a turn, timed after ``warm`` that are not: the cache holds the data of another way."""
    warm: int = 2
    rounds: int = 100


def _images(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(64, 3, 32, 32, generator=draw), torch.randint(0, 10, (64,), generator=draw)


def _flat(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(128, 784, generator=draw), torch.randint(0, 10, (128,), generator=draw)


def _text(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, 65, (8, 129), generator=draw)
    return tokens[:, :-1], tokens[:, 1:]


REALISTIC = {BY_HAND: None, "light": 1.10, "standard": 1.20}
NETWORKS = {
    "watching-transformer": Network(
        "Transformer, 2.7M parameters, 8 x 128 tokens", Transformer, _text, REALISTIC, steps=2, warm=1, rounds=10
    ),
    "watching-resnet": Network("ResNet-20, 64 images", resnet, _images, REALISTIC, steps=2, warm=1, rounds=10),
    "watching-mlp": Network(
        "MLP 784-112-96-10, 100,000 parameters, batch 128",
        lambda: mlp(784, 112, 96, 10),
        _flat,
        {BY_HAND: None, RECORDING: 1.03, "light": 1.25, "standard": 1.40},
    ),
    "watching-mlp-wide": Network(
        "MLP 784-256-256-256-256-10, batch 128",
        lambda: mlp(784, 256, 256, 256, 256, 10),
        _flat,
        {BY_HAND: None, RECORDING: None, "light": None, "standard": None},
    ),
    "watching-mlp-deep": Network(
        "MLP 784-112-96-10, 100,000 parameters, batch 128",
        lambda: mlp(784, 112, 96, 10),
        _flat,
        {"deep": None},
        2,
        1,
        5,
    ),
}


class HandWrittenHooks:
    """What one writes without a tool: norms of outputs, of the gradients at them, of weights and of updates.

    Right in this loop, and wrong without a word in others: ``docs/probes.md`` says in which.
    """

    def __init__(self, net: nn.Module) -> None:
        self.parameters = list(net.parameters())
        self.row: list[Tensor] = []
        self.rows: list[Tensor] = []
        for module in net.modules():
            if next(module.children(), None) is None:
                module.register_forward_hook(self._at_output)

    def _at_output(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        self.row.append(output.detach().norm())
        if output.requires_grad:
            output.register_hook(lambda gradient: self.row.append(gradient.norm()))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Reads everything in one training step."""
        before = [parameter.detach().clone() for parameter in self.parameters]
        yield
        for parameter, old in zip(self.parameters, before, strict=True):
            self.row += [parameter.detach().norm(), (parameter.detach() - old).norm()]
        self.rows.append(torch.stack(self.row))
        self.row = []


def training(network: Network, way: str, ending: ExitStack) -> tuple[Step, nn.Module]:
    """Returns a function that takes one training step, and the network that it trains, the same for every way."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = network.build()
    draw = torch.Generator().manual_seed(0)
    batches = [network.draw(draw) for _ in range(16)]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.001)

    def plain(step: int) -> Tensor:
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if way == PLAIN:
        return plain, net
    if way == BY_HAND:
        hooks = HandWrittenHooks(net)

        def hooked(step: int) -> None:
            with hooks.step():
                plain(step)

        return hooked, net
    if way == RECORDING:
        directory = ending.enter_context(tempfile.TemporaryDirectory())
        run = ending.enter_context(ky.record("bench", arm="plain", seed=0, out=directory, device="cpu"))
        counted = run.steps(itertools.count())

        def recorded(step: int) -> None:
            next(counted)  # ends the previous step and begins this one
            run.log(loss=plain(step))

        return recorded, net
    loss, batch = (_loss, batches[0]) if way == "deep" else (None, None)
    probe = ending.enter_context(ky.Probe(net, optimizer, level=way, every=1, loss=loss, batch=batch))

    def probed(step: int) -> None:
        with probe.step(step):
            plain(step)

    return probed, net


def _loss(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(net(batch[0]), batch[1])


@dataclass(frozen=True)
class Cost:
    """The least seconds of a plain step and of a watched one."""

    name: str
    network: str
    way: str
    plain: float
    watched: float
    limit: float | None = None

    @property
    def ratio(self) -> float:
        """The time of a watched step relative to that of a plain one."""
        return self.watched / self.plain

    def over_limit(self) -> str:
        """Returns a sentence if the way is over its limit; empty if not."""
        if self.limit is None or self.ratio <= self.limit:
            return ""
        loop = f"{self.ratio:.3f} times as long as the loop without it"
        return f"{self.name}: {self.way} takes {loop}, above the limit of {self.limit:.2f}"


def measure(name: str) -> list[Cost]:
    """Returns the cost of every way of watching one of the `NETWORKS`, timed in turns."""
    network = NETWORKS[name]
    seconds: dict[str, list[float]] = {way: [] for way in (PLAIN, *network.limits)}
    print(f"{name}: {network.rounds} rounds", file=sys.stderr, flush=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ExitStack() as ending:
            loops = {way: training(network, way, ending)[0] for way in seconds}
            for number in range(-1, network.rounds):  # the first round is not counted: everything is loaded in it
                first = (number + 1) * (network.warm + network.steps)
                for way, loop in loops.items() if number % 2 else reversed(loops.items()):
                    for step in range(first, first + network.warm):
                        loop(step)
                    started = time.thread_time()
                    for step in range(first + network.warm, first + network.warm + network.steps):
                        loop(step)
                    if number >= 0:
                        seconds[way].append((time.thread_time() - started) / network.steps)
    finally:
        torch.set_num_threads(threads)
    plain = min(seconds[PLAIN])
    return [Cost(name, network.about, way, plain, min(seconds[way]), most) for way, most in network.limits.items()]


def render(costs: Sequence[Cost]) -> str:
    """Returns the costs as a Markdown table, and a line about how they were taken."""
    lines = ["| network | a plain step | watched at every step by | plain = 1 | limit |", "|---|---|---|---|---|"]
    lines += [
        f"| {cost.network} | {1000 * cost.plain:.3g} ms | {ABOUT[cost.way]} | {cost.ratio:.3f} "
        f"| {'' if cost.limit is None else f'{cost.limit:.2f}'} |"
        for cost in costs
    ]
    how = "CPU time on one thread, all ways in turns, the least of 10 rounds (MLPs: 100; `deep`: 5)."
    return "\n".join([*lines, "", how])
