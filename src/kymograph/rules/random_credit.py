"""The random-credit baseline: every block gets fresh noise of the same size as DFA's credit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.models.blocks import evaluation_mode
from kymograph.models.examples import guess_example
from kymograph.rules.base import EXACT, BlockRule, Credit, LocalSignal, PlanLine, Setup
from kymograph.rules.direct import spread
from kymograph.rules.drawing import UpdateStream
from kymograph.rules.losses import error_of, rows_of
from kymograph.shapes import Float

PART = {
    "name": "random-credit",
    "order": 16,
    "about": "every block gets noise of the size of its sample's error, redrawn for every update",
    "acts_on": "blocks",
}


class RandomCredit(BlockRule):
    """Credit ||e|| / sqrt(classes) times normal noise: DFA with matrices redrawn for every sample and update."""

    title = "random-credit"
    follows = True

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        super().__init__(net, setup.loss)
        self.stream = UpdateStream(setup, self.title)
        example = guess_example(net) if setup.example is None else setup.example
        with evaluation_mode(net), torch.no_grad():
            self.widths = [self.net.credit_shape(point)[0] for point in self.net.stream(example)]

    def noise(self, error: Tensor, point: int) -> Float[Tensor, "*batch width"]:
        """Returns the credit of each sample (and position) at point ``point`` of the stream, from its output error."""
        size = torch.linalg.vector_norm(error, dim=-1, keepdim=True) / error.shape[-1] ** 0.5
        return size * self.stream.normal(str(point), error, *error.shape[:-1], self.widths[point])

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts, from one forward pass."""
        self.check_followed()
        start, outputs, points = self.net.trace(x, detach=True)
        logits = self.net.readout(points[-1])
        losses = self.losses(logits, y)
        error = error_of(self.loss, logits, y)
        signals = [
            spread(self.net, self.noise(error, number) / rows_of(logits), part)
            for number, part in enumerate([start, *outputs])
        ]
        roots = [(losses, torch.ones_like(losses)), *zip([start, *outputs], signals, strict=True)]
        learning = [(root, signal) for root, signal in roots if root.requires_grad]
        with self.filling(accumulate):
            if learning:
                torch.autograd.backward([root for root, _ in learning], [signal for _, signal in learning])
        return Credit(losses.detach(), logits.detach(), tuple(signals[1:]))

    def after_update(self, step: int) -> None:
        """Moves on to the next noise."""
        self.following.note_update()
        self.stream.advance()

    def plan(self) -> list[PlanLine]:
        """Returns the plan: only the read-out is exact, and the graph is cut at every block's input."""
        lines = []
        for point, part in enumerate(["embed", *self.block_names()]):
            local = LocalSignal(noise=lambda error, point=point: self.noise(error, point))  # type: ignore[misc]
            lines.append(PlanLine(part, "noise of its error's size, redrawn for every update", "other", local))
        return [*lines, PlanLine("readout", EXACT, "exact")]


def build(net: nn.Module, setup: Setup) -> RandomCredit:
    """Returns the rule."""
    return RandomCredit(net, setup)
