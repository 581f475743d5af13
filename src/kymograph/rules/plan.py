"""The credit plan: which part of a network gets which signal, what stays exact, what is cut."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import Rule
from kymograph.rules.baselines import BlockBackprop, NormalisedBackprop
from kymograph.rules.direct import DirectFeedback

EXACT = "exact gradient of the loss"


class Line(NamedTuple):
    """What one part of a network learns from."""

    part: str
    signal: str
    kind: Literal["exact", "nothing", "other"]
    """Whether that gives the part autograd's gradient, none at all, or one of the rule's own."""


def credit_plan(net: BlockNetwork, rule: Rule) -> list[Line]:
    """Returns what every part of ``net`` learns from under ``rule``, which is asked for its own settings."""
    blocks = [f"blocks.{number}" for number in range(len(net.blocks))]
    readout = Line("readout", EXACT, "exact")
    if isinstance(rule, DirectFeedback):
        scaled = ", divided per sample by its RMS" if rule.normalise else ""
        pulled = f", plus {rule.penalty:g} ||f||^2" if rule.penalty else ""
        at_embed = f"B_0 e{scaled} (the matrix of block 0); cut from the blocks"
        return [
            Line("embed", at_embed, "other"),
            *(Line(block, f"B_{number} e at its output f{scaled}{pulled}; exact inside, cut at its input", "other")
              for number, block in enumerate(blocks)),
            readout,
        ]  # fmt: skip
    if isinstance(rule, NormalisedBackprop):
        scaled = f"{EXACT}, divided per sample by its RMS"
        at_blocks = [Line(block, f"{scaled} at its output; exact inside", "other") for block in blocks]
        return [Line("embed", scaled, "other"), *at_blocks, readout]
    if isinstance(rule, BlockBackprop):
        nothing = [Line(block, "nothing", "nothing") for block in blocks]
        if rule.parts == "readout":
            return [Line("embed", "nothing", "nothing"), *nothing, readout]
        if rule.parts == "no blocks":
            return [Line("embed", f"{EXACT}, passed through the blocks", "exact"), *nothing, readout]
        return [Line("embed", EXACT, "exact"), *(Line(block, EXACT, "exact") for block in blocks), readout]
    raise KymographError(f"a rule of the kind {type(rule).__name__} has no credit plan")
