"""Backpropagation (Rumelhart, Hinton and Williams, 1986): the exact gradient, by autograd."""

from __future__ import annotations

from typing import Any

from torch import nn

from kymograph.models.blocks import parameter_names
from kymograph.rules.base import EXACT, Credit, PlanLine, Rule, Setup, add_gradients

PART = {
    "name": "bp",
    "order": 1,
    "about": "backpropagation: every part gets the exact gradient",
    "normalised": "normalised-bp",  # the rule that normalises this one's signal
    "replicas": True,  # supports networks of replicas too
}


class Backprop(Rule):
    """The exact gradient of each replica's loss, for every part."""

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts."""
        with self.filling(accumulate):
            outputs = self.net(x)
            losses = self.losses(outputs, y)
            add_gradients(losses, [own for parameters in self.parts().values() for own in parameters])
        return Credit(losses.detach(), outputs.detach())

    def plan(self) -> list[PlanLine]:
        """Returns the plan: everything is exact."""
        return [PlanLine(part, EXACT, "exact") for part in parameter_names(self.net)]


def build(net: nn.Module, setup: Setup) -> Backprop:
    """Returns the rule."""
    return Backprop(net, setup.loss)
