"""The credit plan: which part of a network gets which signal, what stays exact, what is cut."""

from __future__ import annotations

from kymograph.models.blocks import BlockNetwork


def credit_plan(net: BlockNetwork, rule: str, penalty: float = 0.0, normalise: bool = True) -> list[tuple[str, str]]:
    """Returns (part, what it learns from) for every part of ``net`` under ``rule``."""
    blocks = [f"blocks.{number}" for number in range(len(net.blocks))]
    exact = "exact gradient of the loss"
    if rule == "bp":
        note = ", divided per sample by its RMS at the block's output" if normalise else ""
        return [("embed", exact + note), *((block, exact + note) for block in blocks), ("readout", exact)]
    if rule == "shallow":
        return [("embed", "nothing"), *((block, "nothing") for block in blocks), ("readout", exact)]
    if rule == "frozen":
        return [
            ("embed", f"{exact}, passed through the blocks"),
            *((block, "nothing") for block in blocks),
            ("readout", exact),
        ]
    tail = (", divided per sample by its RMS" if normalise else "") + (f", plus {penalty:g} ||f||^2" if penalty else "")
    return [
        ("embed", f"B_0 e{tail.split(', plus')[0]} (the matrix of block 0); cut from the blocks"),
        *((block, f"B_{number} e at its output f{tail}; exact inside, cut at its input")
          for number, block in enumerate(blocks)),
        ("readout", exact),
    ]  # fmt: skip
