"""Simulated worlds: the distributions of their numbers, and the claims made about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kymograph.claims.claim import Claim, Direction, Measure, Quantity
from kymograph.streams import stream_seed

SIZES = (6, 10, 20)
LAWS = ("normal", "lognormal", "heavy-tailed")
"""Normal; lognormal with sigma 1; Student's t with two degrees of freedom, which has no variance."""


@dataclass(frozen=True)
class Simulation:
    """How many worlds of each kind to simulate, and the random seed."""

    worlds: int
    seed: int = 0

    def generator(self, *names: str | int) -> np.random.Generator:
        """Returns the generator of the worlds with this name, independent of what other worlds draw."""
        return np.random.default_rng(stream_seed(self.seed, "selftest", *map(str, names)))

    def draw(self, law: str, *shape: int, name: str) -> np.ndarray:
        """Returns independent numbers with mean 0, (worlds, *shape)."""
        generator = self.generator(name, law, *shape)
        size = (self.worlds, *shape)
        if law == "normal":
            return generator.standard_normal(size)
        if law == "lognormal":
            return generator.lognormal(0.0, 1.0, size) - math.exp(0.5)
        return generator.standard_t(2, size)


def claim(direction: Direction = "greater", margin: float = 0.0) -> Claim:
    """Returns a claim that compares the numbers of two arms in the given direction."""
    one, other = (Quantity(arm, Measure("x")) for arm in ("one", "other"))
    return Claim(f"{direction} by {margin:g}", "selftest", "own", "", "", one, other, direction, margin)
