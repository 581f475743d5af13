"""Derives the gradients of a rule that hands credit to blocks a second time, part by part, from local losses.

What a part descends is taken from the rule's plan alone, so these are the plan's gradients and not those of the code.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import LocalSignal, Rule, in_blocks
from kymograph.rules.losses import rows_of, target_of
from kymograph.rules.normalised import RMS_EPSILON


def local_gradients(rule: Rule, x: Any, y: Any) -> dict[str, Tensor]:
    """Returns the gradient of each part whose plan says what it descends, as one vector."""
    twin = copy.deepcopy(in_blocks(rule.net))
    points, states = _stream(twin, x)
    logits = twin.readout(points[-1])
    loss = rule.losses(logits, y).sum()
    error, *at_points = torch.autograd.grad(loss, [logits, *points], materialize_grads=True, allow_unused=True)
    own = {}
    for line in rule.plan():
        if line.local is None:
            continue
        number = 0 if line.part == "embed" else int(line.part.removeprefix("blocks.")) + 1
        part = twin.embed if number == 0 else twin.blocks[number - 1]
        parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
        if not parameters:
            continue
        _set_random_state(states[number])  # so that dropout drops the same units
        # The part's output, from an input without a graph.
        out = part(x if number == 0 else points[number - 1].detach())
        # The loss is a mean, so a sample's own gradient is its share times the number of samples (or of positions, if
        # the outputs have some).
        count = len(y) if line.local.matrix is None and line.local.noise is None else rows_of(logits)
        credit = _credit(twin, line.local, count * error, logits, y, count * at_points[number], out)
        local = (out * credit).sum() / count
        if line.local.penalty:
            local = local + line.local.penalty * out.square().flatten(1).sum(1).mean()
        parts = torch.autograd.grad(local, parameters, allow_unused=True, materialize_grads=True)
        own[line.part] = torch.cat([gradient.flatten() for gradient in parts])
    return own


def _credit(
    net: BlockNetwork, local: LocalSignal, error: Tensor, logits: Tensor, y: Any, gradient: Tensor, out: Tensor
) -> Tensor:
    """Returns what a part's output is multiplied by in its local loss, per sample."""
    if local.noise is not None:
        signal = local.noise(error)
    elif local.matrix is None:
        signal = gradient.flatten(1)
    else:
        sent = target_of(logits, y) if local.sent == "target" else error.sign() if local.sent == "sign" else error
        signal = torch.einsum("wc,...c->...w", local.matrix, sent)
    if local.normalised:
        signal = signal / (signal.square().mean(-1, keepdim=True).sqrt() + RMS_EPSILON)
    if (local.matrix is None and local.noise is None) or signal.dim() == out.dim():
        return signal.view_as(out)
    return net.spread(signal, out)


def _stream(net: BlockNetwork, x: Any) -> tuple[list[Tensor], list[Any]]:
    """Returns h_0 to h_L, and the state of torch's generators before each part."""
    states = [_random_state()]
    points = [net.embed(x)]
    if not points[0].requires_grad:  # an embed with nothing to learn
        points[0] = points[0].detach().requires_grad_()
    for block in net.blocks:
        states.append(_random_state())
        points.append(net.join(points[-1], block(points[-1])))
    return points, states


def _random_state() -> tuple[Tensor, list[Tensor]]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []


def _set_random_state(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
