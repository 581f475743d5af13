"""Proof that a learning rule is at work: its gradients, part by part, beside what its plan says and beside autograd's.

A rule that is backpropagation in disguise trains well and proves nothing. So every line of a rule's credit plan is
put to the test, in float64, on the networks and by the very code that the study trains with: each part's gradient is
worked out a second time, from the plan alone and one part after the other, as the scripts did it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kymograph import streams
from kymograph.data.batches import Batches
from kymograph.models.blocks import BlockNetwork, CutModule, FlatNetwork
from kymograph.probes.measures import cosine
from kymograph.rules.base import Rule
from kymograph.rules.direct import DirectFeedback
from kymograph.rules.plan import Line, credit_plan
from kymograph.studies.image_training import draw_network, load_task, make_feedback, make_rule
from kymograph.studies.snapshot import Snapshot, SnapshotConfig

IMAGES = 64
CLOSE = 1e-6
"""Gradients are taken for equal if their difference is at most this share of the length."""
APART = 1e-3
"""And for different if it is at least this."""


@dataclass(frozen=True)
class Part:
    """A part's line of the credit plan, and its gradient set beside what that says and beside autograd's."""

    line: Line
    difference: float
    """||g - planned|| / ||planned||; NaN if nothing is planned."""
    apart: float
    """The same from autograd's."""
    cosine: float
    """With autograd's; NaN if the gradient is zero."""
    zero: bool
    """Whether every number of the gradient is exactly zero."""

    @property
    def holds(self) -> bool:
        """Whether the plan's line is true."""
        if self.line.kind == "nothing":
            return self.zero
        return self.difference <= CLOSE and (self.line.kind == "exact" or self.apart >= APART)


def prove(model: str, seed: int = 42) -> Iterator[tuple[str, list[Part]]]:
    """Yields every arm of ``model`` whose rule differs from those before, with its parts, at the first weights."""
    batches = Batches(load_task("digits"), IMAGES)
    x, y = batches.test(IMAGES)
    known: set[tuple[object, ...]] = set()
    for arm in Snapshot().arms():
        config = SnapshotConfig(**{**arm.preset, **arm.treatment})
        kind = (config.rule, config.rms, config.penalty)
        if config.model != model or kind in known:
            continue
        known.add(kind)
        draw = streams.script_generator(seed)
        net = draw_network(config, batches.task, draw)
        feedback = [matrix.double() for matrix in make_feedback(config, net, batches, draw)]
        yield arm.name, _parts(net.double(), config, feedback, x.double(), y)


def with_true_chain(seed: int = 42) -> float:
    """Returns how far DFA is from autograd if every B is the true chain to the logits, on linear blocks."""
    draw = streams.script_generator(seed)
    x, y = torch.randn(IMAGES, 20, generator=draw).double(), torch.randint(0, 10, (IMAGES,), generator=draw)
    net, chain = _linear_network(draw)
    expected, found = autograd(net, x, y), gradients(net, DirectFeedback(chain, normalise=False), x, y)
    return max(_difference(found[part], expected[part]) for part in expected)


def autograd(net: BlockNetwork, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns the gradient of the mean cross-entropy by part, each as one vector, from autograd and nothing else."""
    twin = copy.deepcopy(net)
    names = FlatNetwork(twin).groups
    twin.zero_grad()
    nn.functional.cross_entropy(twin(x), y).backward()
    return {part: _vector(twin, own) for part, own in names.items()}


def gradients(net: BlockNetwork, rule: Rule, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns what ``rule`` fills in by part, each as one vector."""
    flat = FlatNetwork(copy.deepcopy(net))
    rule.backward(flat, x, y)
    return {part: _vector(flat.net, own) for part, own in flat.groups.items()}


def planned(net: BlockNetwork, config: SnapshotConfig, feedback: Sequence[Tensor], x: Tensor, y: Tensor) -> dict:
    """Returns by part the gradient that a rule with credit at the blocks must fill in, each from a loss of its own."""
    twin = copy.deepcopy(net)
    points = [twin.embed(x)]
    for block in twin.blocks:
        points.append(twin.join(points[-1], block(points[-1])))
    logits = twin.readout(points[-1])
    losses = nn.functional.cross_entropy(logits, y, reduction="none")
    if config.rule == "dfa":
        (error,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
        signals = [error @ matrix.T for matrix in (feedback[0], *feedback)]  # the embed shares the first block's
    else:
        signals = [gradient.flatten(1) for gradient in torch.autograd.grad(losses.sum(), points, retain_graph=True)]
    if config.rms:
        signals = [signal / (signal.square().mean(1, keepdim=True).sqrt() + 1e-6) for signal in signals]
    own = {"readout": _of(losses.mean(), [twin.norm, twin.head])}
    for place, signal in enumerate(signals):
        # What a part puts out, from an input that carries no gradient further down.
        out = twin.embed(x) if place == 0 else twin.blocks[place - 1](points[place - 1].detach())
        credit = twin.spread(signal, out) if config.rule == "dfa" else signal.view_as(out)
        local = (out * credit).flatten(1).sum(1).mean()
        if config.penalty and place > 0:
            local = local + config.penalty * out.square().flatten(1).sum(1).mean()
        own["embed" if place == 0 else f"blocks.{place - 1}"] = _of(
            local, [twin.blocks[place - 1] if place else twin.embed]
        )
    return own


def _of(loss: Tensor, modules: Sequence[nn.Module]) -> Tensor:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters, retain_graph=True)])


def _parts(net: BlockNetwork, config: SnapshotConfig, feedback: list[Tensor], x: Tensor, y: Tensor) -> list[Part]:
    rule = make_rule(config, feedback, "cpu")
    exact, found = autograd(net, x, y), gradients(net, rule, x, y)
    own = planned(net, config, feedback, x, y) if config.rule == "dfa" or config.rms else exact
    return [
        Part(
            line,
            math.nan if line.kind == "nothing" else _difference(found[line.part], own[line.part]),
            _difference(found[line.part], exact[line.part]),
            float(cosine(found[line.part], exact[line.part])),
            not bool(found[line.part].any()),
        )
        for line in credit_plan(net, rule)
    ]


def _linear_network(draw: torch.Generator) -> tuple[BlockNetwork, list[Tensor]]:
    """Returns a network of linear blocks without skips, and the matrix from each block's output to the logits.

    The first block starts as the identity, so that the matrix it shares with the embed is right for both.
    """
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


def _difference(found: Tensor, expected: Tensor) -> float:
    return float(torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected))


def _vector(net: nn.Module, names: Sequence[str]) -> Tensor:
    parameters = dict(net.named_parameters())
    found = [parameters[name].grad for name in names]
    return torch.cat([gradient.flatten() for gradient in found if gradient is not None])


def tell(model: str, seed: int) -> tuple[str, bool]:
    """Returns the plans and proofs of all rules on ``model`` as text, and whether everything holds."""
    lines, holds = [f"{model} at its first weights, seed {seed}, {IMAGES} images of digits, float64"], True
    for arm, parts in prove(model, seed):
        lines += ["", arm]
        width = max(len(part.line.part) for part in parts)
        for part in parts:
            holds &= part.holds
            mark = "ok" if part.holds else "WRONG"
            lines.append(f"  {mark:<5} {part.line.part:<{width}}  {_measured(part):<58}  {part.line.signal}")
    chained = with_true_chain(seed)
    holds &= chained <= CLOSE
    mark = "ok" if chained <= CLOSE else "WRONG"
    lines += [
        "",
        f"  {mark:<5} DFA with the true chain in place of every B is autograd's (linear blocks): {_apart(chained)}",
    ]
    return "\n".join(lines), holds


def _measured(part: Part) -> str:
    if part.zero:
        return "exactly zero"
    if part.line.kind == "exact" and part.difference <= CLOSE:
        return f"autograd's ({_apart(part.difference)})"
    planned = f"as planned ({_apart(part.difference)})" if part.difference <= CLOSE else "not as planned"
    return f"{planned}, cosine {part.cosine:+.3f} with autograd's"


def _apart(difference: float) -> str:
    return "to the bit" if difference == 0 else f"apart by {difference:.0e}"
