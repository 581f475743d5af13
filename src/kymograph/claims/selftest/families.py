"""Rows about families: the probability of one or more wrong decisions of a kind among all claims of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kymograph.claims.selftest.false_verdicts import ALPHA, MARGIN
from kymograph.claims.selftest.many_decisions import decide_many
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import Simulation, claim

SIZES = (5, 12)
SEEDS = (10, 20)
AT_MARGIN = 8
TWICE_ALPHA = RateBound(most=0.1)
"""Direction and equivalence each have their own alpha."""
SKEWED_FAMILY = RateBound(most=0.52)


def no_effects(simulation: Simulation) -> Iterator[Row]:
    """Yields how often any direction is found in a family without effects: independent claims, or one shared arm."""
    for size in SIZES:
        for n in SEEDS:
            for world, values in (
                ("independent claims", simulation.draw("normal", size, n, name="family")),
                ("claims against one arm", _against_one_arm(simulation, size, n)),
            ):
                found = decide_many([claim()] * size, values)
                yield measured(f"no effect, {size} {world}", n, found, "any direction", found.directed, ALPHA)


def some_effects(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found for any claim without an effect, next to claims with a large one.

    Holm's correction weakens with every claim that is decided: here it is at its weakest for the remaining claims.
    """
    size, real, n = 6, 3, 10
    values = simulation.draw("normal", size, n, name="family with effects")
    values[:, :real] += 5.0
    found = decide_many([claim()] * size, values)
    wrong = found.directed[:, real:]
    yield measured(f"{real} large effects, {size - real} claims without", n, found, "any wrong direction", wrong, ALPHA)


def at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields how often any effect is called EQUIVALENT, or larger, in a family whose effects are all at the margin."""
    for n in SEEDS:
        values = simulation.draw("normal", AT_MARGIN, n, name="family at the margin") + MARGIN
        found = decide_many([claim("greater", MARGIN)] * AT_MARGIN, values)
        yield measured(f"{AT_MARGIN} effects at the margin", n, found, "any EQUIVALENT", found.equivalent, ALPHA)
        yield measured(f"{AT_MARGIN} effects at the margin", n, found, "any wrong verdict", found.decided, TWICE_ALPHA)


def skewed_at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields the same for lognormal differences: a known limit."""
    margin, n = 10 * math.exp(0.5), 10
    values = simulation.draw("lognormal", AT_MARGIN, n, name="family at the margin") + margin
    found = decide_many([claim("greater", margin)] * AT_MARGIN, values)
    world = f"{AT_MARGIN} lognormal effects at the margin"
    yield measured(world, n, found, "any EQUIVALENT", found.equivalent, SKEWED_FAMILY, "limit")


def _against_one_arm(simulation: Simulation, size: int, n: int) -> np.ndarray:
    """Returns the differences (worlds, size, n) of ``size`` arms from one shared arm; their correlation is one half."""
    arms = simulation.draw("normal", size + 1, n, name="arms")
    return arms[:, 1:] - arms[:, :1]
