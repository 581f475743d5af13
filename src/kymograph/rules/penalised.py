"""Penalised DFA (arXiv:2606.21126): DFA with normalised credit, and a penalty on the size of each block's output."""

from __future__ import annotations

from torch import nn

from kymograph.rules.base import Setup
from kymograph.rules.direct import DirectFeedback
from kymograph.rules.direct import build as build_direct

PART = {
    "name": "penalised-dfa",
    "order": 15,
    "about": "direct feedback alignment, normalised, with a penalty on the size of each block's output",
    "options": ("normalise", "penalty", "shared_embed"),
    "acts_on": "blocks",
}


def build(
    net: nn.Module, setup: Setup, *, normalise: bool = True, penalty: float = 0.01, shared_embed: bool = False
) -> DirectFeedback:
    """Returns DFA with these options."""
    return build_direct(net, setup, normalise=normalise, penalty=penalty, shared_embed=shared_embed)
