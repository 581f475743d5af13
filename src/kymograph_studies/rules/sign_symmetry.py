"""Sign-concordant feedback (Liao, Leibo and Poggio, 2016, arXiv:1510.05067): B has the signs of W only."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from kymograph_studies.rules.base import Setup
from kymograph_studies.rules.feedback import UpdateStream
from kymograph_studies.rules.layers.weights import NamedTensors, same_layout
from kymograph_studies.rules.layerwise import LAW, LayerRule, drawn_like, initial_rms

PARTS = {
    "usf": {
        "attribute": "UniformSign",
        "order": 7,
        "about": "sign symmetry: the signs of the weights, all with one magnitude",
        "acts_on": "layers",
    },
    "frsf": {
        "attribute": "FixedSign",
        "order": 9,
        "about": "sign symmetry: the signs of the weights, with fixed random magnitudes",
        "acts_on": "layers",
    },
    "brsf": {
        "attribute": "RedrawnSign",
        "order": 8,
        "about": "sign symmetry: the signs of the weights, with magnitudes redrawn for every update",
        "acts_on": "layers",
    },
}


class SignRule(LayerRule):
    """A rule with B = M * sign(W) for the current W. A subclass defines the magnitudes M."""

    sizes: str
    """The magnitudes, in words."""
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


class UniformSign(SignRule):
    """uSF: every magnitude is the root mean square that the weight had before training."""

    title, sizes = "usf", "one magnitude"

    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns the one magnitude."""
        return self.scales[name]


class FixedSign(SignRule):
    """frSF: magnitudes |R| with R normal, at the scale of the initial weights."""

    title, sizes = "frsf", "fixed random magnitudes"
    feedback_law = f"|R| sign(W), R ~ {LAW}"

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        super().__init__(net, setup)
        drawn, weights = drawn_like(net, setup, self.title), self.weights()
        self.magnitudes = NamedTensors(
            {name: same_layout(drawn[name].abs(), weight) for name, weight in weights.items()}
        )

    def magnitude_of(self, name: str, weight: Tensor) -> Tensor:
        """Returns |R|."""
        return self.magnitudes[name]


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
