"""Uniform sign-concordant feedback, uSF: B = s sign(W), s the root mean square of the initial weights."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.rules.base import Setup
from kymograph.rules.sign_rule import SignRule

PART = {
    "name": "usf",
    "order": 7,
    "about": "sign symmetry: the signs of the weights, all with one magnitude",
    "acts_on": "layers",
}


class UniformSign(SignRule):
    """uSF: every magnitude is the root mean square that the weight had before training."""

    title, sizes = "usf", "one magnitude"

    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns the one magnitude."""
        return self.scales[name]


def build(net: nn.Module, setup: Setup) -> UniformSign:
    """Returns the rule."""
    return UniformSign(net, setup)
