"""Backpropagation, plain and with its signal normalised per sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from kymograph._shapes import Float
from kymograph_studies.models.blocks import parameter_names
from kymograph_studies.rules.base import (
    EXACT,
    RMS_EPSILON,
    BlockRule,
    Credit,
    LocalSignal,
    PlanLine,
    Rule,
    Setup,
    add_gradients,
)

PARTS = {
    "bp": {
        "attribute": "build_backprop",
        "order": 1,
        "about": "backpropagation: every part gets the exact gradient",
        "normalised": "normalised-bp",
        "replicas": True,
    },
    "normalised-bp": {
        "attribute": "build_normalised",
        "order": 3,
        "about": "backpropagation, its signal divided per sample by its RMS",
        "acts_on": "blocks",
    },
}


class Backprop(Rule):
    """The exact gradient of each replica's loss, for every part."""

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts."""
        with self.filling(accumulate):
            outputs = self.net(x)
            losses = self.losses(outputs, y)
            add_gradients(losses, [parameter for parameters in self.parts().values() for parameter in parameters])
        return Credit(losses.detach(), outputs.detach())

    def plan(self) -> list[PlanLine]:
        """Returns the plan: everything is exact."""
        return [PlanLine(part, EXACT, "exact") for part in parameter_names(self.net)]


def build_backprop(net: nn.Module, setup: Setup) -> Backprop:
    """Returns the rule."""
    return Backprop(net, setup.loss)


def unit_rms(credit: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
    """Returns each row of ``credit`` divided by its RMS plus `RMS_EPSILON`."""
    return credit / (credit.square().mean(-1, keepdim=True).sqrt() + RMS_EPSILON)


class NormalisedBackprop(BlockRule):
    """Backpropagation whose signal at embed and blocks is divided, per sample, by its RMS.

    Block l gets its exact local Jacobian times the normalised gradient at its output; the read-out is exact.
    """

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts, from one forward pass."""
        with self.filling(accumulate):
            net, parts, size = self.net, self.parts(), len(y)
            start = net.embed(x)
            if not start.requires_grad:  # an embed with nothing to learn
                start = start.detach().requires_grad_()
            outputs, points = net.walk(start)
            logits = net.readout(points[-1])
            losses = self.losses(logits, y)
            gradients = torch.autograd.grad(losses.sum(), points, retain_graph=True)
            signals = [unit_rms((g * size).flatten(1)).view_as(g) / size for g in gradients]
            for part, output, signal in zip(["embed", *self.block_names()], [start, *outputs], signals, strict=True):
                if parts[part]:
                    output.backward(signal, inputs=parts[part], retain_graph=True)
            add_gradients(losses, parts["readout"])
        return Credit(losses.detach(), logits.detach(), tuple(signals[1:]))

    def plan(self) -> list[PlanLine]:
        """Returns the plan: only the read-out is exact."""
        scaled = f"{EXACT}, divided per sample by its RMS"
        local = LocalSignal(normalised=True)
        return [
            PlanLine("embed", scaled, "other", local),
            *(PlanLine(block, f"{scaled} at its output; exact inside", "other", local) for block in self.block_names()),
            PlanLine("readout", EXACT, "exact"),
        ]


def build_normalised(net: nn.Module, setup: Setup) -> NormalisedBackprop:
    """Returns the rule."""
    return NormalisedBackprop(net, setup.loss)
