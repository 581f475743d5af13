"""Batch-wise random sign-concordant feedback, brSF: B = |R| sign(W), R redrawn for every update."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.rules.base import Setup
from kymograph.rules.drawing import UpdateStream
from kymograph.rules.sign_rule import SignRule

PART = {
    "name": "brsf",
    "order": 8,
    "about": "sign symmetry: the signs of the weights, with magnitudes redrawn for every update",
    "acts_on": "layers",
}


class RedrawnSign(SignRule):
    """brSF: magnitudes |R| with R normal, at the scale of the initial weights."""

    title, sizes = "brsf", "magnitudes redrawn for every update"
    follows = True

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        super().__init__(net, setup)
        self.stream = UpdateStream(setup, self.title)

    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns |R| of this update; drawn only for weights that the signal comes back through."""
        return self.stream.normal(name, weight).abs_().mul_(self.scales[name])

    def after_update(self, step: int) -> None:
        """Moves on to the next magnitudes."""
        self.following.note_update()
        self.stream.advance()


def build(net: nn.Module, setup: Setup) -> RedrawnSign:
    """Returns the rule."""
    return RedrawnSign(net, setup)
