"""Direct random target projection, DRTP (Frenkel, Lefebvre and Bol, 2021, arXiv:1909.01311).

Every block gets its target through a fixed random matrix, a_l = B_l onehot(y), before the outputs are known. The
read-out is exact. Under cross-entropy, onehot(y) marks where the error is negative, and the signal keeps only that.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from kymograph.rules.base import Setup, TrueFeedback
from kymograph.rules.direct import DirectFeedback
from kymograph.rules.feedback import LAW, feedback_for
from kymograph.rules.losses import target_of

PART = {
    "name": "drtp",
    "order": 13,
    "about": "direct random target projection: every block gets the target through a random matrix",
    "options": ("normalise",),
    "acts_on": "blocks",
}


class TargetProjection(DirectFeedback):
    """DRTP: a_l = B_l onehot(y)."""

    title, symbol = "drtp", "onehot(y)"
    sent = "target"

    def message(self, outputs: Tensor, y: Any) -> Tensor:
        """Returns the targets as one-hot vectors; targets of the outputs' shape as they are."""
        return target_of(outputs.detach(), y)

    def message_of(self, error: Tensor) -> Tensor:
        """Returns the targets from cross-entropy errors, which are negative only at the target."""
        return (error < 0).to(error.dtype)

    def true_feedback(self, x: Tensor, y: Tensor) -> TrueFeedback | None:
        """Returns None: the target is not the error, whatever carries it."""
        return None


def build(net: nn.Module, setup: Setup, *, normalise: bool = False) -> TargetProjection:
    """Returns the rule with matrices drawn for the network."""
    blocks, embed = feedback_for(net, setup)
    return TargetProjection(net, blocks, normalise=normalise, embed_feedback=embed, loss=setup.loss, law=LAW)
