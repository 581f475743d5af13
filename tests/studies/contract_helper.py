"""What the contract's study imports from beside it."""

from __future__ import annotations


def learning_rate(seed: int) -> float:
    """Returns a rate that depends on the seed."""
    return 0.01 + 0.001 * (seed % 5)
