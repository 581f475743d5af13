"""A rule for tests whose state changes after every update, as that of a rule that learns its feedback does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph_studies.rules.base import Setup
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.feedback import feedback_for

PART = {"name": "drifting", "about": "DFA whose matrices rotate their columns after every update"}


class Drifting(DirectFeedback):
    """DFA whose matrices rotate by one column after every update, and which counts the updates."""

    follows = True
    updates: Tensor

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        blocks, embed = feedback_for(net, setup)
        super().__init__(net, blocks, embed_feedback=embed, loss=setup.loss)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def after_update(self, step: int) -> None:
        """Rotates the matrices."""
        self.following.note_update()
        self.updates += 1
        for matrix in self.matrices():
            matrix.copy_(matrix.roll(1, dims=1))


def build(net: nn.Module, setup: Setup) -> Drifting:
    """Returns the rule."""
    return Drifting(net, setup)
