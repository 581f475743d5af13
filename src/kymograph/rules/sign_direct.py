"""Direct feedback alignment that carries only the sign of the output error, sDFA."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.rules.base import Setup, TrueFeedback
from kymograph.rules.direct import DirectFeedback
from kymograph.rules.feedback import LAW, feedback_for

PART = {
    "name": "sdfa",
    "order": 12,
    "about": "direct feedback alignment of the output error's sign",
    "options": ("normalise",),
    "acts_on": "blocks",
}


class SignDirect(DirectFeedback):
    """sDFA: a_l = B_l sign(e)."""

    title, symbol = "sdfa", "sign(e)"
    sent = "sign"

    def message_of(self, error: Tensor) -> Tensor:
        """Returns the signs of the errors."""
        return error.sign()

    def true_feedback(self, x: Tensor, y: Tensor) -> TrueFeedback | None:
        """Returns None: the sign of the error is not the error, whatever carries it."""
        return None


def build(net: nn.Module, setup: Setup, *, normalise: bool = False) -> SignDirect:
    """Returns the rule with matrices drawn for the network."""
    blocks, embed = feedback_for(net, setup)
    return SignDirect(net, blocks, normalise=normalise, embed_feedback=embed, loss=setup.loss, law=LAW)
