"""Learning rates over training."""

from __future__ import annotations

import math


def cosine_to_zero(lr: float, epoch: int, epochs: int) -> float:
    """Returns the learning rate of ``epoch`` (from 0) on a half cosine that would reach 0 after ``epochs``."""
    return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
