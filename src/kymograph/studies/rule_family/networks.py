"""The networks of the study, with a seed's initial weights."""

from __future__ import annotations

import torch

from kymograph import streams
from kymograph.models import draw_model
from kymograph.models.blocks import BlockNetwork
from kymograph.models.initialise import initialise
from kymograph.models.token_transformer import TokenTransformer
from kymograph.studies.rule_family import RuleFamilyConfig
from kymograph.studies.rule_family.tasks import FamilyTask

BATCH_NORM = "-bn"
"""The suffix of a network's name that adds batch norm to it."""


def family_network(config: RuleFamilyConfig, task: FamilyTask, seed: int) -> BlockNetwork:
    """Returns the network with the initial weights of its seed, which all rules share."""
    draw = streams.generator(seed, "weights")
    if config.network == "transformer":
        vocab, length = task.shape
        with torch.random.fork_rng(devices=[]):  # torch's own initial weights are redrawn below
            net = TokenTransformer(vocab, length, task.classes, config.depth, config.width)
        initialise(net, draw)
        return net
    channels, size, _ = task.shape
    return draw_model(
        config.network.removesuffix(BATCH_NORM),
        channels,
        size,
        task.classes,
        draw,
        depth=config.depth,
        width=config.width,
        batch_norm=config.network.endswith(BATCH_NORM),
    )
