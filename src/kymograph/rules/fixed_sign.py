"""Fixed random sign-concordant feedback, frSF: B = |R| sign(W), R drawn once."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.rules.base import Setup
from kymograph.rules.layer_rule import LAW, drawn_like
from kymograph.rules.layers.weights import NamedTensors, same_layout
from kymograph.rules.sign_rule import SignRule

PART = {
    "name": "frsf",
    "order": 9,
    "about": "sign symmetry: the signs of the weights, with fixed random magnitudes",
    "acts_on": "layers",
}


class FixedSign(SignRule):
    """frSF: magnitudes |R| with R normal, at the scale of the initial weights."""

    title, sizes = "frsf", "fixed random magnitudes"
    feedback_law = f"|R| sign(W), R ~ {LAW}"

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        super().__init__(net, setup)
        drawn, weights = drawn_like(net, setup, self.title), self.weights()
        self.magnitudes = NamedTensors({name: same_layout(drawn[name].abs(), own) for name, own in weights.items()})

    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns |R|."""
        return self.magnitudes[name]


def build(net: nn.Module, setup: Setup) -> FixedSign:
    """Returns the rule."""
    return FixedSign(net, setup)
