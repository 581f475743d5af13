"""Baselines that every table shows: frozen blocks, head only, random credit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph._shapes import Float
from kymograph.quantities import evaluation_mode
from kymograph_studies.models.cut import guess_example
from kymograph_studies.rules.base import EXACT, BlockRule, Credit, LocalSignal, PlanLine, Setup, add_gradients
from kymograph_studies.rules.feedback import UpdateStream
from kymograph_studies.rules.losses import error_of, rows_of

PARTS = {
    "frozen": {
        "attribute": "build_frozen",
        "order": 5,
        "about": "embed and read-out learn through blocks that do not",
        "acts_on": "blocks",
    },
    "shallow": {
        "attribute": "build_shallow",
        "order": 4,
        "about": "only the read-out learns; hidden gradients are exactly zero",
        "acts_on": "blocks",
    },
    "random-credit": {
        "attribute": "RandomCredit",
        "order": 16,
        "about": "every block gets noise of the size of its sample's error, redrawn for every update",
        "acts_on": "blocks",
    },
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


def build_frozen(net: nn.Module, setup: Setup) -> Frozen:
    """Returns the rule."""
    return Frozen(net, setup.loss)


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


def build_shallow(net: nn.Module, setup: Setup) -> Shallow:
    """Returns the rule."""
    return Shallow(net, setup.loss)


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
        size: Tensor = torch.linalg.vector_norm(error, dim=-1, keepdim=True) / error.shape[-1] ** 0.5
        return size * self.stream.normal(str(point), error, *error.shape[:-1], self.widths[point])

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts, from one forward pass."""
        self.check_followed()
        start, outputs, points = self.net.trace(x, detach=True)
        logits = self.net.readout(points[-1])
        losses = self.losses(logits, y)
        error = error_of(self.loss, logits, y)
        signals = [
            self.net.spread(self.noise(error, number) / rows_of(logits), part)
            for number, part in enumerate([start, *outputs])
        ]
        parts = zip([start, *outputs], signals, strict=True)
        self.descend([(losses, torch.ones_like(losses)), *parts], accumulate)
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
