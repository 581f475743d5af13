"""Rows about looking more than once: its cost without a registration, and the errors of a sequential design.

A wrong verdict at any look counts, even if a later look would reverse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kymograph.claims.design import Design
from kymograph.claims.selftest.false_verdicts import ALPHA, MARGIN
from kymograph.claims.selftest.many_decisions import ManyDecisions, decide_alone, decide_at_looks
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import Simulation, claim
from kymograph.statistics.sign_flips import LEAST_SEEDS

DESIGNS = (Design((6, 8, 10)), Design((10, 15, 20)))
PEEKING_UP_TO = 20
PEEKING = RateBound(least=0.14, most=0.19)
"""The cost of looking after every seed; a lower rate would mean a broken simulation, a higher one a faulty test."""


def peeking(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found by looking after every seed, as if each look were the only one."""
    values = simulation.draw("normal", PEEKING_UP_TO, name="peeking")
    sizes = range(LEAST_SEEDS, PEEKING_UP_TO + 1)
    looks = [decide_alone(claim(), values[:, :n]) for n in sizes]
    seeds = seeds_text(looks, sizes)
    yield measured(
        "no effect, not registered, a look at every n from 6", seeds, stopped(looks), "a direction at any look",
        at_any_look(looks), PEEKING, "cost",
    )  # fmt: skip


def sequential(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a sequential design finds a direction or equivalence where there is none."""
    for design in DESIGNS:
        values = simulation.draw("normal", 1, design.sizes[-1], name="sequential")
        looks = decide_at_looks([claim()], values, design)
        seeds = seeds_text(looks, design.sizes)
        yield measured(
            f"no effect, {design}", seeds, stopped(looks), "a direction at any look", at_any_look(looks), ALPHA
        )
    for design in DESIGNS:
        values = simulation.draw("normal", 1, design.sizes[-1], name="sequential, margin") + MARGIN
        looks = decide_at_looks([claim("greater", MARGIN)], values, design)
        wrong = np.any([look.equivalent for look in looks], axis=0)
        seeds = seeds_text(looks, design.sizes)
        yield measured(f"at the margin, {design}", seeds, stopped(looks), "EQUIVALENT at any look", wrong, ALPHA)
    design, size = DESIGNS[1], 5
    values = simulation.draw("normal", size, design.sizes[-1], name="sequential family")
    looks = decide_at_looks([claim()] * size, values, design)
    seeds = seeds_text(looks, design.sizes)
    yield measured(
        f"no effect, {size} claims, {design}", seeds, stopped(looks), "any direction at any look",
        at_any_look(looks), ALPHA,
    )  # fmt: skip


def at_any_look(looks: Sequence[ManyDecisions]) -> np.ndarray:
    """Returns whether a direction was decided at any look, (worlds, claims)."""
    return np.any([look.directed for look in looks], axis=0)


def stopped(looks: Sequence[ManyDecisions]) -> ManyDecisions:
    """Returns the decisions when stopping at the first look that decides all claims, or at the last."""
    last = _stops(looks)
    chosen = (
        np.stack([getattr(look, name) for look in looks])[last, np.arange(len(last))]
        for name in ("supported", "refuted", "equivalent")
    )
    return ManyDecisions(*chosen)


def seeds_text(looks: Sequence[ManyDecisions], sizes: Sequence[int]) -> str:
    """Returns the mean number of seeds used when stopping as soon as all claims are decided, and the maximum."""
    return f"{np.array(sizes)[_stops(looks)].mean():.1f} of {sizes[-1]}"


def _stops(looks: Sequence[ManyDecisions]) -> np.ndarray:
    """Returns the index of the look at which each world stops, (worlds,)."""
    done = np.stack([look.decided.all(axis=1) for look in looks])
    done[-1] = True
    return done.argmax(axis=0)
