"""The shallow baseline: only norm and head learn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.rules.base import EXACT, BlockRule, Credit, PlanLine, Setup, add_gradients

PART = {
    "name": "shallow",
    "order": 4,
    "about": "only the read-out learns; hidden gradients are exactly zero",
    "acts_on": "blocks",
}


class Shallow(BlockRule):
    """The exact gradient for the read-out, and zeros for everything below it."""

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of the read-out."""
        with self.filling(accumulate):
            with torch.no_grad():
                last = self.net.stream(x)[-1]
            logits = self.net.readout(last)
            losses = self.losses(logits, y)
            add_gradients(losses, self.parts()["readout"])
        return Credit(losses.detach(), logits.detach())

    def plan(self) -> list[PlanLine]:
        """Returns the plan: only the read-out learns."""
        still = [PlanLine(part, "nothing", "nothing") for part in ("embed", *self.block_names())]
        return [*still, PlanLine("readout", EXACT, "exact")]


def build(net: nn.Module, setup: Setup) -> Shallow:
    """Returns the rule."""
    return Shallow(net, setup.loss)
