"""Proof that a learning rule is active: its gradients, part by part, next to what its plan says and to autograd's.

A rule that is backpropagation in disguise trains well and proves nothing. So every line of a rule's plan is put to the
test, by the very code that trains: each part's gradient is worked out a second time, from the plan alone and one part
after the other, from a loss of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kymograph.models.blocks import BlockNetwork, parameter_names
from kymograph.models.cut import CutModule
from kymograph.models.flat import FlatNetwork
from kymograph.rules.base import PlanLine, Rule, in_blocks
from kymograph.rules.direct import DirectFeedback
from kymograph.rules.losses import losses_per_sample
from kymograph.rules.normalised import RMS_EPSILON
from kymograph.shapes import Float

CLOSE = 1e-6
"""Gradients are taken for equal if their difference is at most this share of the length."""
APART = 1e-3
"""And for different if it is at least this."""


@dataclass(frozen=True)
class PartProof:
    """A part's line of the plan, and its gradient next to what that says and next to autograd's, each as one vector."""

    line: PlanLine
    found: Float[Tensor, " parameters"]
    planned: Float[Tensor, " parameters"] | None
    """None if nothing is planned, or if the plan does not say what the part descends."""
    autograd: Float[Tensor, " parameters"]

    @property
    def difference(self) -> float:
        """||g - planned|| / ||planned||; NaN if nothing is planned."""
        return float("nan") if self.planned is None else relative_difference(self.found, self.planned)

    @property
    def apart(self) -> float:
        """The same from autograd's."""
        return relative_difference(self.found, self.autograd)

    @property
    def zero(self) -> bool:
        """Whether every number of the gradient is exactly zero."""
        return not bool(self.found.any())

    @property
    def holds(self) -> bool:
        """Whether the plan's line is true."""
        if self.line.kind == "nothing":
            return self.zero
        return self.difference <= CLOSE and (self.line.kind == "exact" or self.apart >= APART)


def prove(rule: Rule, x: Any, y: Any) -> list[PartProof]:
    """Returns the proof of every part that has parameters, on one batch; rule and network are left as they are.

    Convert rule and network to float64 first: rounding would hide what is wrong.
    """
    exact, found = autograd(rule, x, y), gradients(rule, x, y)
    plan = rule.plan()
    own = planned(rule, plan, x, y) if any(line.local is not None for line in plan) else {}
    proofs = []
    for line in plan:
        if len(exact[line.part]):
            said = exact[line.part] if line.kind == "exact" else own.get(line.part)
            proofs.append(PartProof(line, found[line.part], said, exact[line.part]))
    return proofs


def autograd(rule: Rule, x: Any, y: Any) -> dict[str, Tensor]:
    """Returns the gradient of the loss by part, each as one vector, from autograd and nothing else."""
    twin = copy.deepcopy(rule.net)
    _lay_out(twin)
    twin.zero_grad()
    rule.loss(twin(x), y).sum().backward()
    return _by_part(twin)


def gradients(rule: Rule, x: Any, y: Any) -> dict[str, Tensor]:
    """Returns what ``rule`` fills in by part, each as one vector."""
    twin = copy.deepcopy(rule)
    _lay_out(twin.net)
    twin.backward(x, y, accumulate=False)
    return _by_part(twin.net)


def planned(rule: Rule, plan: Sequence[PlanLine], x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns the gradient of each part whose plan says what it descends, from a loss of its own."""
    twin = copy.deepcopy(in_blocks(rule.net))
    points = twin.stream(x)
    logits = twin.readout(points[-1])
    losses = losses_per_sample(rule.loss, logits, y)
    (error,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
    at_points = torch.autograd.grad(losses.sum(), points, retain_graph=True, allow_unused=True)
    own = {}
    for line in plan:
        if line.local is None:
            continue
        matrix, normalised, penalty = line.local
        number = 0 if line.part == "embed" else int(line.part.removeprefix("blocks.")) + 1
        # What a part puts out, from an input that carries no gradient further down.
        part = twin.embed if number == 0 else twin.blocks[number - 1]
        out = part(x if number == 0 else points[number - 1].detach())
        signal = at_points[number].flatten(1) if matrix is None else error @ matrix.T
        if normalised:
            signal = signal / (signal.square().mean(1, keepdim=True).sqrt() + RMS_EPSILON)
        credit = signal.view_as(out) if matrix is None else twin.spread(signal, out)
        local = (out * credit).flatten(1).sum(1).mean()
        if penalty:
            local = local + penalty * out.square().flatten(1).sum(1).mean()
        parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
        if parameters:
            parts = torch.autograd.grad(local, parameters, retain_graph=True)
            own[line.part] = torch.cat([gradient.flatten() for gradient in parts])
    return own


def with_true_chain(draw: torch.Generator, samples: int = 64, device: str = "cpu") -> float:
    """Returns how far DFA is from autograd if every B is the true chain to the logits, on linear blocks."""
    x, y = torch.randn(samples, 20, generator=draw).double(), torch.randint(0, 10, (samples,), generator=draw)
    net, chain = linear_network(draw)
    x, y, rule = x.to(device), y.to(device), DirectFeedback(net.to(device), chain, normalise=False).to(device)
    expected, found = autograd(rule, x, y), gradients(rule, x, y)
    return max(relative_difference(found[part], expected[part]) for part in expected)


def linear_network(draw: torch.Generator) -> tuple[BlockNetwork, list[Tensor]]:
    """Returns a network of linear blocks without skips, and the matrix from each block's output to the logits.

    The first block starts as the identity, so that the matrix it shares with the embed is right for both.
    """
    with torch.random.fork_rng(devices=[]):  # torch's own first weights come from the global generator
        blocks, head = [nn.Linear(16, 16) for _ in range(4)], nn.Linear(16, 10)
        net = CutModule(nn.Linear(20, 16), blocks, nn.Identity(), head).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * parameter.shape[-1] ** -0.5)
        blocks[0].weight.copy_(torch.eye(16))
    chain = [head.weight.detach().T]
    for block in reversed(blocks[1:]):
        chain.insert(0, block.weight.detach().T @ chain[0])
    return net, chain


def relative_difference(found: Float[Tensor, " n"], expected: Float[Tensor, " n"]) -> float:
    """Returns ||found - expected|| / ||expected||."""
    return float(torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected))


def _lay_out(net: nn.Module) -> None:
    """Lays the parameters of a copied network in one row, as they lie in training: copying has scattered them."""
    if isinstance(net, BlockNetwork):
        FlatNetwork(net)


def _by_part(net: nn.Module) -> dict[str, Tensor]:
    named: Mapping[str, nn.Parameter] = {name: own for name, own in net.named_parameters() if own.requires_grad}
    nothing = next(net.parameters()).detach().new_empty(0)
    return {
        part: torch.cat([nothing, *(_gradient(named[name]) for name in names if name in named)])
        for part, names in parameter_names(net).items()
    }


def _gradient(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return gradient.flatten()
