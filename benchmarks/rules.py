"""What a training step of each learning rule costs, relative to plain backpropagation and next to BioTorch's."""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from kymograph import _streams as streams
from kymograph._runs.provenance import hardware, versions
from kymograph_studies.models import draw_model
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules import RULES, make
from kymograph_studies.training.loop import Update
from kymograph_studies.training.optimizers import AdamW

ROUNDS, STEPS, BATCH = 30, 3, 128
MOST = 1.3
"""The most that a step of a rule may take, relative to a step of plain backpropagation."""
SPENT_ON = {
    "brsf": "draws a number for every weight in the backward pass, at every step",
    "wm": "injects noise into every layer after every step",
    "kp": "copies the weights, and updates the feedback with them",
}
"""What rules spend time on besides the forward and the backward pass."""
BIOTORCH = ("fa", "dfa", "usf", "brsf", "frsf")
Step = Callable[[], object]


def bench_rules(rounds: int = ROUNDS) -> int:
    """Prints the time of a step of every rule relative to plain backpropagation; returns 1 if a rule takes too long.

    The network is the residual MLP of `snapshot` on images of CIFAR-10's size, with AdamW. All ways alternate; times
    are CPU times on one thread, and ratios are medians over all rounds.
    """
    ratios = measure(rounds)
    print(f"a step of the residual MLP (3072 to 256, 4 blocks, batch {BATCH}, AdamW), plain autograd = 1")
    too_slow = []
    for name, values in ratios.items():
        ratio = statistics.median(values)
        note = SPENT_ON.get(name, "")
        if name in RULES.names() and ratio > MOST:
            too_slow.append(name)
            note = f"over the limit of {MOST}"
        print(f"  {name:<24} {ratio:5.2f} ({min(values):.2f}-{max(values):.2f})  {note}".rstrip())
    if not any(name.startswith("BioTorch") for name in ratios):
        print("  (BioTorch is not installed: pip install biotorch==0.0.16 --no-deps)")
    print(f"{hardware()['processor']}, torch {versions()['torch']}; {rounds} rounds, all ways in turns, one thread")
    return 1 if too_slow else 0


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Returns, for each way of taking a step, its time over that of plain autograd in every round."""
    draw = streams.generator(0, "bench", "rules")
    x, y = torch.randn(BATCH, 3, 32, 32, generator=draw), torch.randint(0, 10, (BATCH,), generator=draw)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ways: dict[str, Step] = {"plain autograd": _plain(x, y)}
        ways |= {name: _ours(name, x, y) for name in RULES.names()}
        ways |= {f"BioTorch {mode}": step for mode in BIOTORCH if (step := _biotorch(mode, x, y)) is not None}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, rounds):
            for name, step in ways.items():
                step()  # not timed: the cache holds the data of the way before
                started = time.thread_time()
                for _ in range(STEPS):
                    step()
                if number >= 0:
                    seconds[name].append(time.thread_time() - started)
    finally:
        torch.set_num_threads(threads)
    plain = seconds.pop("plain autograd")
    return {name: [a / b for a, b in zip(values, plain, strict=True)] for name, values in seconds.items()}


def _network() -> nn.Module:
    return draw_model("resmlp", 3, 32, 10, streams.generator(0, "bench", "weights"), depth=4, width=256)


def _plain(x: Tensor, y: Tensor) -> Step:
    net = _network()
    return _step(net, lambda: nn.functional.cross_entropy(net(x), y).backward())


def _ours(name: str, x: Tensor, y: Tensor) -> Step:
    """Returns a step as the studies take it: with flattened parameters, and this package's AdamW."""
    net = _network()
    flat = FlatNetwork(net)
    rule = make(name, net, generator=streams.generator(0, "bench", "feedback"), example=x[:2])
    optimizer = AdamW(flat, 1e-3, 0.01)
    update = Update(optimizer)
    rule.attach(optimizer)
    flat.attach()

    def step() -> None:
        rule.backward(x, y, accumulate=False)
        rule.before_update()
        update()
        rule.after_update(0)

    return step


def _biotorch(mode: str, x: Tensor, y: Tensor) -> Step | None:
    """Returns a step of BioTorch on the same network; None if it is not installed."""
    try:
        from biotorch.module.biomodule import BioModule  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()):  # it reports every conversion
        net = BioModule(_network(), mode=mode, output_dim=10)
    loss = nn.functional.cross_entropy
    if mode == "dfa":
        return _step(net, lambda: loss(net(x, y, loss), y).backward())
    return _step(net, lambda: loss(net(x), y).backward())


def _step(net: nn.Module, fill: Callable[[], object]) -> Step:
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01)

    def step() -> None:
        optimizer.zero_grad()
        fill()
        optimizer.step()

    return step
