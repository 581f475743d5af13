"""Rows about power: how often an effect of one standard deviation of the differences is found."""

from __future__ import annotations

from collections.abc import Iterator

from kymograph.claims.selftest.looks import DESIGNS, seeds_text, stopped
from kymograph.claims.selftest.many_decisions import decide_alone, decide_at_looks, decide_many
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import Simulation, claim

FAMILY = 6
LEAST = {10: 0.78, 20: 0.98}
"""The least power of a fixed design, by number of seeds."""
LEAST_IN_FAMILY = 0.38
LEAST_SEQUENTIAL = {10: 0.45, 20: 0.94}
"""Low at 10, because the first look, at 6 seeds, decides nothing: 2/2^6 is above its share of alpha, 0.6 x 0.05."""


def fixed(simulation: Simulation) -> Iterator[Row]:
    """Yields how often the effect is found by a claim on its own, and by the only one of six that has an effect."""
    for n, least in LEAST.items():
        found = decide_alone(claim(), simulation.draw("normal", n, name="power") + 1.0)
        yield measured("effect of 1 sd", n, found, "SUPPORTED", found.supported, RateBound(least=least), "power")
    n = 10
    values = simulation.draw("normal", FAMILY, n, name="power in a family")
    values[:, 0] += 1.0
    found = decide_many([claim()] * FAMILY, values)
    bound = RateBound(least=LEAST_IN_FAMILY)
    yield measured(
        f"effect of 1 sd, 1 of {FAMILY} claims", n, found, "SUPPORTED", found.supported[:, 0], bound, "power"
    )


def sequential(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a sequential design finds the effect, and with how many seeds."""
    for design in DESIGNS:
        n = design.sizes[-1]
        looks = decide_at_looks([claim()], simulation.draw("normal", n, name="power")[:, None] + 1.0, design)
        found, bound = stopped(looks), RateBound(least=LEAST_SEQUENTIAL[n])
        seeds = seeds_text(looks, design.sizes)
        yield measured(f"effect of 1 sd, {design}", seeds, found, "SUPPORTED", found.supported, bound, "power")
