"""Rows about a claim that is alone in its family: every way to be wrong about it, each with its share of alpha.

A wrong direction is decided in at most 5 % of worlds, half of that for support and half for refutation; a wrong
EQUIVALENT in at most 5 %. The rows cover the worst cases: no effect, and effects exactly at what a verdict must reject.
"""

from __future__ import annotations

from collections.abc import Iterator

from kymograph.claims.claim import Direction
from kymograph.claims.selftest.many_decisions import decide_alone
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import LAWS, SIZES, Simulation, claim

ALPHA, HALF = RateBound(most=0.05), RateBound(most=0.025)
MARGIN = 2.0
"""In standard deviations of the differences; large enough for six seeds to show equivalence."""
_AT_MARGIN: dict[Direction, int] = {"greater": 1, "less": -1, "not less": -1, "not greater": 1, "equal": 1}
"""The side of zero on which the deciding margin lies."""


def no_effect(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found between two arms with the same distribution."""
    for law in LAWS:
        for n in SIZES:
            pairs = simulation.draw(law, 2, n, name="no effect")
            found = decide_alone(claim(), pairs[:, 0] - pairs[:, 1])
            yield measured(f"no effect, {law}", n, found, "a direction", found.directed, ALPHA)


def at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields how often an effect exactly at the margin is called larger or smaller."""
    for direction, sign in _AT_MARGIN.items():
        for n in SIZES:
            world = f'"{direction}", effect at the margin'
            found = decide_alone(claim(direction, MARGIN), simulation.draw("normal", n, name=world) + sign * MARGIN)
            if direction in ("greater", "less"):
                yield measured(world, n, found, "SUPPORTED", found.supported, HALF)
            else:  # support and refutation must both reject the margin
                yield measured(world, n, found, "a direction", found.directed, ALPHA)


def equivalence(simulation: Simulation) -> Iterator[Row]:
    """Yields how often an effect exactly at the equivalence margin is called EQUIVALENT."""
    for n in SIZES:
        found = decide_alone(claim("greater", MARGIN), simulation.draw("normal", n, name="equivalence") + MARGIN)
        yield measured("effect at the equivalence margin", n, found, "EQUIVALENT", found.equivalent, ALPHA)


def refutation(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a zero effect, or one smaller than the margin, is said to go the other way."""
    for world, effect in (("no effect, margin 1 sd", 0.0), ("effect 0.1 sd, margin 1 sd", 0.1)):
        for n in SIZES:
            found = decide_alone(claim("greater", 1.0), simulation.draw("normal", n, name=world) + effect)
            yield measured(world, n, found, "REFUTED", found.refuted, HALF)
