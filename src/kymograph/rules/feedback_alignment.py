"""Feedback alignment (Lillicrap et al., 2014, arXiv:1411.0247): a fixed random B in place of each W on the way back."""

from __future__ import annotations

from torch import nn

from kymograph.rules.base import Setup
from kymograph.rules.layer_rule import LAW, HeldFeedback, drawn_like

PART = {
    "name": "fa",
    "order": 6,
    "about": "feedback alignment: the signal comes back through fixed random matrices instead of the weights",
    "acts_on": "layers",
}


class FeedbackAlignment(HeldFeedback):
    """FA: every B is drawn once, from a law of its weight's own size, and kept."""

    title = "fa"


def build(net: nn.Module, setup: Setup) -> FeedbackAlignment:
    """Returns the rule with feedback drawn for every weight."""
    return FeedbackAlignment(net, setup, drawn_like(net, setup, FeedbackAlignment.title), LAW)
