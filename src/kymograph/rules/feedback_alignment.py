"""Feedback alignment (Lillicrap et al., 2014, arXiv:1411.0247): the backward pass uses a fixed random B for each W."""

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
    """FA: every B is drawn once, at the scale of its weight, and kept."""

    title = "fa"


def build(net: nn.Module, setup: Setup) -> FeedbackAlignment:
    """Returns the rule with feedback drawn for every weight."""
    return FeedbackAlignment(net, setup, drawn_like(net, setup, FeedbackAlignment.title), LAW)
