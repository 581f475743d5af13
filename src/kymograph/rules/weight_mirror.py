"""The weight mirror (Akrout et al., 2019, arXiv:1904.05391): B learns W from how each layer responds to noise.

After every update, white noise x is fed to each layer separately, and the responses y = W x are correlated with it:
E[y x^T] = W. B moves a little towards that estimate, B <- B + eta (y x^T - B), so its decay bounds its size. The noise
is fresh for every layer: noise that has passed through a layer is no longer white.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.rules.base import Setup
from kymograph.rules.drawing import UpdateStream
from kymograph.rules.layer_rule import LAW, HeldFeedback, drawn_like

PART = {
    "name": "wm",
    "order": 11,
    "about": "weight mirror: feedback alignment whose matrices are learned from the layers' responses to noise",
    "options": ("eta", "samples"),
    "acts_on": "layers",
}


class WeightMirror(HeldFeedback):
    """FA whose B is learned from noise.

    Args:
        eta: how far B moves towards an estimate. The remaining angle between B and W has a squared tangent of about
            eta * inputs / (2 * samples).
        samples: how many noise vectors each layer gets after an update.
    """

    title = "wm"
    follows = True

    def __init__(
        self,
        net: nn.Module,
        setup: Setup,
        feedback: dict[str, Tensor],
        law: str = "",
        *,
        eta: float = 0.01,
        samples: int = 32,
    ) -> None:
        if not 0 < eta <= 1 or samples < 1:
            raise KymographError(f"wm needs eta in (0, 1] and at least one sample, not {eta} and {samples}")
        super().__init__(net, setup, feedback, law)
        self.eta, self.samples, self.stream = eta, samples, UpdateStream(setup, self.title)

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Moves every B towards the correlation of its layer's responses with the noise that was fed in."""
        self.following.note_update()
        for name, weight in self.carrying_weights().items():
            rows = weight.detach().flatten(1)  # of a kernel: all weights of one output or, if transposed, of one input
            noise = self.stream.normal(name, weight, self.samples, rows.shape[1])
            estimate = (rows @ noise.t()) @ noise / self.samples
            self.feedback[name].lerp_(estimate.view(weight.shape), self.eta)
        self.stream.advance()


def build(net: nn.Module, setup: Setup, *, eta: float = 0.01, samples: int = 32) -> WeightMirror:
    """Returns the rule with initial feedback drawn for every weight."""
    first = drawn_like(net, setup, WeightMirror.title)
    return WeightMirror(net, setup, first, LAW, eta=eta, samples=samples)
