"""``kymograph rules``: the credit plan of every learning rule, checked against autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import choice, parse, positional, shown
from kymograph.cli.choices import MODELS

PART = {
    "about": "what every part of a network learns from under each rule, checked against autograd",
    "order": 90,
}


@dataclass(frozen=True)
class Options:
    """Print the credit plan of every learning rule, each line proved in the way that the rule declares.

    Exits with 1 if a line does not hold.
    """

    network: Annotated[str | None, positional(), shown("FILE.py:FUNCTION", default="a network of snapshot")] = None
    """A function that returns your own network, or (network, x, y), or (network, x, y, loss)."""
    blocks: Annotated[tuple[str, ...], shown("NAME ...", default="those that the network has")] = ()
    """The submodules of your own network that are blocks, in order, for the rules that act on blocks."""
    model: Annotated[str, choice(MODELS)] = "resmlp"
    """The network of snapshot to use, if you name none of your own."""
    seed: int = 42
    """Seed of the weights and the feedback matrices."""
    device: Annotated[str, shown("DEVICE")] = "auto"
    """auto, cpu, cuda or cuda:N; the arithmetic is float64, which mps does not have."""


def main(words: list[str]) -> int:
    """Prints the plans and what was measured; returns 0 only if every line holds."""
    options = parse(Options, words, "kymograph rules")
    from kymograph.lab.proof import rules_text

    text, holds = rules_text(options.model, options.seed, options.device, options.network, options.blocks)
    print(text)
    return 0 if holds else 1
