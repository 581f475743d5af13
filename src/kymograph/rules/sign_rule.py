"""Sign-concordant feedback (Liao, Leibo and Poggio, 2016, arXiv:1510.05067): B has the signs of W only."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from kymograph.rules.base import Setup
from kymograph.rules.layer_rule import LayerRule, initial_rms
from kymograph.rules.layers.weights import NamedTensors, same_layout


class SignRule(LayerRule):
    """A rule with B = M * sign(W) for the current W. A subclass defines the magnitudes M."""

    given: NamedTensors
    """Magnitudes that replace the rule's own, by weight; the proof sets them to |W|."""
    scales: NamedTensors
    """The root mean square of each weight before training."""

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        super().__init__(net, setup)
        weights = self.weights()
        self.scales = NamedTensors({name: weight.new_tensor(initial_rms(weight)) for name, weight in weights.items()})
        self.given = NamedTensors({})

    @abstractmethod
    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns the magnitudes of the feedback for a weight, in its shape or as a single number."""

    @torch.no_grad()
    def feedback_of(self, name: str) -> Tensor:
        """Returns M * sign(W)."""
        weight = self.net.get_parameter(name)
        magnitude = self.given[name] if name in self.given else self.magnitude_of(name, weight)
        return weight.sign().mul_(magnitude)

    def feedback_tensors(self) -> dict[str, Tensor]:
        """Returns the current B of every weight."""
        return {name: self.feedback_of(name) for name in self.weights()}

    @torch.no_grad()
    def give_true_feedback(self) -> None:
        """Sets the magnitudes to those of the weights."""
        for name, weight in self.weights().items():
            self.given[name] = same_layout(weight.abs(), weight)

    def feedback_text(self, names: list[str]) -> str:
        """Describes what replaces the weights called ``names``."""
        return super().feedback_text(names).replace("B of", "the signs of", 1) + f" with {self.sizes}"

    sizes: str
    """The magnitudes, in words."""
