"""Ours and BioTorch 0.0.16 on digits, from the same weights and batches; skipped where BioTorch is not installed.

    pip install biotorch==0.0.16 --no-deps --target DIR
    PYTHONPATH=DIR pytest tests/science/rules/test_biotorch.py -m slow -s

The set-up: MLP 64-128-128-10, ReLU, He initialisation, standardised inputs, SGD 0.05, batch 64, 30 epochs.
"""

from __future__ import annotations

import contextlib
import io
import statistics
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from kymograph_studies.data import load_task
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule

F = nn.functional
SEEDS, EPOCHS, BATCH, RATE = (42, 123, 456), 30, 64, 0.05
MODES = ("bp", "fa", "dfa", "usf")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # BioTorch's hooks are of a kind that torch has deprecated
]


def he_network(seed: int) -> nn.Sequential:
    draw = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    with torch.no_grad():
        for layer in (net[0], net[2], net[4]):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=draw)
            layer.bias.zero_()
    return net


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    task = load_task("digits")
    train, test = (images.flatten(1).float() for images in (task.train, task.test))
    mean, std = train.mean(0), train.std(0)
    std[std == 0] = 1.0
    return (train - mean) / std, task.train_labels, (test - mean) / std, task.test_labels


def batches(count: int, seed: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(seed + 1)
    for _ in range(EPOCHS):
        yield from torch.randperm(count, generator=draw).split(BATCH)


def trained(net: nn.Module, fill: Callable[[Tensor, Tensor], object], seed: int) -> float:
    """Trains ``net`` on digits with what ``fill`` puts into the gradients; returns its test accuracy in percent."""
    x, y, test, labels = digits()
    optimizer = torch.optim.SGD([own for own in net.parameters() if own.requires_grad], lr=RATE)
    for chosen in batches(len(x), seed):
        optimizer.zero_grad()
        fill(x[chosen], y[chosen])
        optimizer.step()
    net.eval()
    with torch.no_grad():
        return 100 * float((net(test).argmax(1) == labels).double().mean())


def theirs(mode: str, seed: int) -> tuple[nn.Module, Callable[[Tensor, Tensor], object]]:
    from biotorch.module.biomodule import BioModule

    torch.manual_seed(seed)  # BioTorch draws its feedback from the global generator
    net = he_network(seed)
    if mode == "bp":
        return net, lambda x, y: F.cross_entropy(net(x), y).backward()
    with contextlib.redirect_stdout(io.StringIO()):
        bio = BioModule(net, mode=mode, output_dim=10)
    if mode == "dfa":
        return bio, lambda x, y: F.cross_entropy(bio(x, y, F.cross_entropy), y).backward()
    return bio, lambda x, y: F.cross_entropy(bio(x), y).backward()


def ours(mode: str, seed: int) -> Rule:
    net = he_network(seed)
    return make(mode, net, loss=F.cross_entropy, generator=torch.Generator().manual_seed(seed + 2))


def with_feedback_of(rule: Rule, bio: nn.Module, mode: str) -> None:
    """Gives a rule the feedback that BioTorch has drawn."""
    layers = [module for module in bio.modules() if isinstance(module, nn.Linear)]
    with torch.no_grad():
        if mode == "fa":
            for name, layer in zip(("0.weight", "2.weight", "4.weight"), layers, strict=True):
                rule.feedback[name].copy_(layer.weight_backward)  # type: ignore[index, operator, union-attr]
        elif mode == "usf":
            for name, layer in zip(("0.weight", "2.weight", "4.weight"), layers, strict=True):
                rule.scales[name].fill_(layer.scaling_factor)  # type: ignore[index, operator, union-attr]
        elif mode == "dfa":  # what they hand to a layer's input, we hand to the output of the part below it
            rule.embed_feedback.copy_(layers[1].weight_backward.T)  # type: ignore[operator, union-attr]
            rule.matrices()[0].copy_(layers[2].weight_backward.T)  # type: ignore[operator]


@pytest.mark.parametrize("mode", MODES)
def test_with_the_same_feedback_the_gradients_are_the_same(mode: str) -> None:
    pytest.importorskip("biotorch")
    bio, fill = theirs(mode, 42)
    rule = ours(mode, 42)
    with_feedback_of(rule, bio, mode)
    x, y, *_ = digits()
    fill(x[:BATCH], y[:BATCH])
    rule.backward(x[:BATCH], y[:BATCH])
    expected = [own.grad for own in bio.parameters() if own.requires_grad]
    for found, other in zip(rule.net.parameters(), expected, strict=True):
        torch.testing.assert_close(found.grad, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_on_the_same_seeds_the_accuracies_agree_within_a_point(mode: str) -> None:
    """With the same feedback: BioTorch's is of another size than ours, and the size of B acts as a learning rate."""
    pytest.importorskip("biotorch")
    found, expected = [], []
    for seed in SEEDS:
        bio, fill = theirs(mode, seed)
        rule = ours(mode, seed)
        with_feedback_of(rule, bio, mode)
        expected.append(trained(bio, fill, seed))
        found.append(trained(rule.net, rule.backward, seed))
    print(f"{mode}: ours {[round(one, 2) for one in found]}, BioTorch {[round(one, 2) for one in expected]}")
    assert abs(statistics.mean(found) - statistics.mean(expected)) <= 1.0
