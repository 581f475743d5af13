"""Kolen-Pollack (1994; Akrout et al., 2019, arXiv:1904.05391): B takes the same steps as W, and decays too.

With the step dW that any optimizer took, and its decay a = learning rate * weight decay,

    B <- B + dW + a (W - B):   the step of W, with the decay of B in place of that of W.

So W - B shrinks by the factor 1 - a with every step, under SGD, momentum and Adam alike, and B converges to W.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.rules.base import Setup
from kymograph.rules.layer_rule import LAW, HeldFeedback, drawn_like

PART = {
    "name": "kp",
    "order": 10,
    "about": "Kolen-Pollack: feedback alignment whose matrices take the weights' own steps, and decay",
    "acts_on": "layers",
    "learns": True,
}


class KolenPollack(HeldFeedback):
    """FA whose B follows the steps of its W; needs `attach` and an optimizer with weight decay."""

    title = "kp"
    follows = True

    def __init__(self, net: nn.Module, setup: Setup, feedback: dict[str, Tensor], law: str = "") -> None:
        super().__init__(net, setup, feedback, law)
        self._before: dict[str, Tensor] = {}

    def before_update(self) -> None:
        """Copies the weights before the step."""
        before = self._before
        for name, weight in self.carrying_weights().items():
            if name in before and before[name].shape == weight.shape and before[name].dtype == weight.dtype:
                before[name].copy_(weight.detach())
            else:
                before[name] = weight.detach().clone(memory_format=torch.preserve_format)

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Moves every B by the step that its weight took, and lets it decay."""
        before = self._before
        self.following.note_update()
        decays = []
        for name, weight in self.carrying_weights().items():
            rates = self.following.rates(weight, self.title)
            if rates is None:  # the optimizer does not move this weight
                continue
            if name not in before:
                raise KymographError(
                    "kp measures every step; call rule.before_update() before each, or rule.attach(optimizer) once"
                )
            decays.append(rates.decay)
            own, start = self.feedback[name], before[name]
            own.lerp_(start, rates.lr * rates.decay).add_(weight).sub_(start)
        if decays and not any(decays):
            raise KymographError(
                "kp needs weight decay: without it B never approaches W; set weight_decay in the optimizer"
            )


def build(net: nn.Module, setup: Setup) -> KolenPollack:
    """Returns the rule with initial feedback drawn for every weight."""
    return KolenPollack(net, setup, drawn_like(net, setup, KolenPollack.title), LAW)
