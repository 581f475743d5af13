"""The frozen-blocks baseline: embed, norm and head learn, the blocks keep their initial weights."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.rules.base import EXACT, BlockRule, Credit, PlanLine, Setup, add_gradients

PART = {
    "name": "frozen",
    "order": 5,
    "about": "embed and read-out learn through blocks that do not",
    "acts_on": "blocks",
}


class Frozen(BlockRule):
    """The exact gradient for embed and read-out, passed through the blocks, and zeros for the blocks."""

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of embed and read-out."""
        with self.filling(accumulate):
            logits = self.net(x)
            losses = self.losses(logits, y)
            parts = self.parts()
            add_gradients(losses, [*parts["embed"], *parts["readout"]])
        return Credit(losses.detach(), logits.detach())

    def plan(self) -> list[PlanLine]:
        """Returns the plan: the blocks learn nothing."""
        return [
            PlanLine("embed", f"{EXACT}, passed through the blocks", "exact"),
            *(PlanLine(block, "nothing", "nothing") for block in self.block_names()),
            PlanLine("readout", EXACT, "exact"),
        ]


def build(net: nn.Module, setup: Setup) -> Frozen:
    """Returns the rule."""
    return Frozen(net, setup.loss)
