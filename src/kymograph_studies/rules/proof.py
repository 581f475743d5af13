"""Proves that a learning rule is active: compares its gradients, part by part, with its plan and with autograd's.

A rule that is backpropagation in disguise trains well and proves nothing. So every line of a rule's plan is tested
on the code that trains: each part's gradient is derived a second time, in the way that the rule declares
(`Rule.derivation`), and with its true feedback (`Rule.true_feedback`) the rule must be backpropagation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kymograph._shapes import Float
from kymograph._streams import forked_generators
from kymograph.quantities import evaluation_mode
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.base import FollowedOptimizer, PlanLine, Rule
from kymograph_studies.rules.direct import DirectFeedback

CLOSE = {torch.float64: 1e-10, torch.float32: 1e-6}
"""The largest relative difference at which gradients count as equal."""
APART = 1e-3
"""The smallest relative difference at which they count as different."""


@dataclass(frozen=True)
class PartProof:
    """A part's line of the plan, and its gradient, the planned one and autograd's, each as one vector."""

    line: PlanLine
    gradient: Float[Tensor, " parameters"]
    planned: Float[Tensor, " parameters"] | None
    """None if nothing is planned, or if the plan does not say what the part descends."""
    autograd: Float[Tensor, " parameters"]

    @property
    def difference(self) -> float:
        """||g - planned|| / ||planned||; NaN if nothing is planned."""
        return float("nan") if self.planned is None else relative_difference(self.gradient, self.planned)

    @property
    def difference_from_autograd(self) -> float:
        """The relative difference from autograd's."""
        return relative_difference(self.gradient, self.autograd)

    @property
    def zero(self) -> bool:
        """Whether every entry of the gradient is exactly zero."""
        return not bool(self.gradient.any())

    @property
    def holds(self) -> bool:
        """Whether the plan's line is true."""
        if self.line.kind == "nothing":
            return self.zero
        if not self.as_planned:
            return False
        return self.line.kind == "exact" or self.difference_from_autograd >= APART or not bool(self.autograd.any())

    @property
    def as_planned(self) -> bool:
        """Whether the gradient is the planned one, to rounding."""
        return self.difference <= CLOSE[self.gradient.dtype]


def prove(rule: Rule, x: Any, y: Any) -> list[PartProof]:
    """Returns the proof of every part that has parameters, on one batch; rule and network are left as they are.

    Convert rule and network to float64 first: rounding would hide errors.
    """
    works = (autograd, gradients, type(rule).derivation)
    exact, filled, derived = (_from_one_state(work, rule, x, y) for work in works)
    proofs = []
    for line in _plan(rule, x, y):
        if len(exact[line.part]):
            planned = exact[line.part] if line.kind == "exact" else derived.get(line.part)
            proofs.append(PartProof(line, filled[line.part], planned, exact[line.part]))
    return proofs


def autograd(rule: Rule, x: Any, y: Any) -> dict[str, Tensor]:
    """Returns the gradient of the loss by part, each as one vector, from autograd alone."""
    twin = copy.deepcopy(rule)
    _lay_out(twin.net)
    twin.net.zero_grad()
    twin.loss(twin.net(x), y).sum().backward()
    return _by_part(twin)


def gradients(rule: Rule, x: Any, y: Any) -> dict[str, Tensor]:
    """Returns what ``rule`` fills in by part, each as one vector."""
    twin = copy.deepcopy(rule)
    _lay_out(twin.net)
    twin.backward(x, y, accumulate=False)
    return _by_part(twin)


@dataclass(frozen=True)
class Identity:
    """A statement that must be true of a rule as a whole."""

    what: str
    difference: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.difference <= self.limit


def identities(rule: Rule, x: Any, y: Any) -> Iterator[Identity]:
    """Yields what must hold: with its true feedback the rule is autograd's, and its plan still holds after a step."""
    limit = CLOSE[next(weight.dtype for weight in rule.net.parameters() if weight.is_floating_point())]
    true = rule.true_feedback(x, y)
    if true is not None:
        evaluated = len(true.x) < len(x)
        with evaluation_mode(true.rule.net) if evaluated else nullcontext():
            expected = _from_one_state(autograd, true.rule, true.x, true.y)
            filled = _from_one_state(gradients, true.rule, true.x, true.y)
        difference = max(relative_difference(filled[part], expected[part]) for part in expected if len(expected[part]))
        yield Identity(f"with {true.what} it is autograd's", difference, limit)
    proofs = prove(after_a_step(rule, x, y), x, y)
    wrong = [proof.line.part for proof in proofs if not proof.holds]
    what = "after a training step every line still holds" + (f", but not for {', '.join(wrong)}" if wrong else "")
    yield Identity(what, float(len(wrong)), 0.0)


def after_a_step(rule: Rule, x: Any, y: Any) -> Rule:
    """Returns a copy of rule and network after one step of SGD with weight decay, which the rule has followed."""
    twin = copy.deepcopy(rule)
    twin.following = FollowedOptimizer()
    optimizer = torch.optim.SGD(twin.trained_parameters(), lr=0.01, weight_decay=0.1)
    twin.attach(optimizer)
    twin.backward(x, y, accumulate=False)
    optimizer.step()
    return twin


def with_true_chain(draw: torch.Generator, samples: int = 64, device: str = "cpu") -> float:
    """Returns DFA's relative difference from autograd if every B is the true chain to the logits, on linear blocks."""
    x, y = torch.randn(samples, 20, generator=draw).double(), torch.randint(0, 10, (samples,), generator=draw)
    net, chain = linear_network(draw)
    x, y, rule = x.to(device), y.to(device), DirectFeedback(net.to(device), chain, normalise=False).to(device)
    expected, filled = autograd(rule, x, y), gradients(rule, x, y)
    return max(relative_difference(filled[part], expected[part]) for part in expected)


def linear_network(draw: torch.Generator) -> tuple[BlockNetwork, list[Tensor]]:
    """Returns a network of linear blocks without skips, and the matrix from each block's output to the logits.

    The first block starts as the identity, so that the matrix it shares with the embed is right for both.
    """
    with torch.random.fork_rng(devices=[]):  # torch initialises from the global generator
        blocks, head = [nn.Linear(16, 16) for _ in range(4)], nn.Linear(16, 10)
        net = BlockNetwork(nn.Linear(20, 16), blocks, nn.Identity(), head, skip=False).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * parameter.shape[-1] ** -0.5)
        blocks[0].weight.copy_(torch.eye(16))
    chain = [head.weight.detach().T]
    for block in reversed(blocks[1:]):
        chain.insert(0, block.weight.detach().T @ chain[0])
    return net, chain


def relative_difference(vector: Float[Tensor, " n"], expected: Float[Tensor, " n"]) -> float:
    """Returns ||vector - expected|| / ||expected||; if ``expected`` is 0, 0 or infinity."""
    size, difference = (float(torch.linalg.vector_norm(v)) for v in (expected, vector - expected))
    if size == 0.0:
        return 0.0 if difference == 0.0 else float("inf")
    return difference / size


def _plan(rule: Rule, x: Any, y: Any) -> list[PlanLine]:
    """Returns the plan after a pass on this batch, for rules that read their plan from a forward pass."""
    twin = copy.deepcopy(rule)
    with forked_generators(rule.net.parameters()):
        twin.backward(x, y)
    return twin.plan()


def _from_one_state(
    work: Callable[[Rule, Any, Any], dict[str, Tensor]], rule: Rule, x: Any, y: Any
) -> dict[str, Tensor]:
    """Returns the result of ``work`` and restores torch's generators, so that dropout always drops the same units."""
    with forked_generators(rule.net.parameters()):
        return work(rule, x, y)


def _lay_out(net: nn.Module) -> None:
    """Puts the parameters of a copied network in one row, as in training: copying has scattered them."""
    if isinstance(net, BlockNetwork):
        FlatNetwork(net)


def _by_part(rule: Rule) -> dict[str, Tensor]:
    nothing = next(rule.net.parameters()).detach().new_empty(0)
    return {part: torch.cat([nothing, *map(_gradient, parameters)]) for part, parameters in rule.parts().items()}


def _gradient(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return gradient.flatten()
