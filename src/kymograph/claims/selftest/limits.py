"""Rows about what no choice of seeds makes right: known limits, each with a bound of its own that it is held to.

Both tests are about means. A mean that rests on rare, large numbers cannot be seen in a sample that has none of them,
and a skewed law at few seeds is a mild form of that: the sample's mean and deviation are then too small together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kymograph.claims.selftest.false_verdicts import ALPHA, HALF
from kymograph.claims.selftest.many_decisions import decide_alone
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import SIZES, Simulation, claim
from kymograph.statistics.intervals import binomial_upper_bound

LOSS, NOISE = 0.5, 0.01
"""What a seed loses that fails, and the deviation of all seeds; the margin is what seeds lose on average."""
SKEWED_LESS = {6: 0.12, 10: 0.17, 20: 0.15}
SKEWED_EQUIVALENT = {6: 0.23, 10: 0.22, 20: 0.19}
"""Bounds by the number of seeds, for numbers that are lognormal with sigma 1."""


def skewed(simulation: Simulation) -> Iterator[Row]:
    """Yields how often one arm's lognormal quantity is called less, or greater, than the number that is its mean."""
    for n in SIZES:
        values = simulation.draw("lognormal", n, name="one arm")
        found = decide_alone(claim("less"), values)
        bound = RateBound(most=SKEWED_LESS[n])
        yield measured('one lognormal arm "less" than its mean', n, found, "SUPPORTED", found.supported, bound, "limit")
        found = decide_alone(claim("greater"), values)
        yield measured('one lognormal arm "greater" than its mean', n, found, "SUPPORTED", found.supported, HALF)


def skewed_equivalence(simulation: Simulation) -> Iterator[Row]:
    """Yields how often lognormal differences at the margin are called EQUIVALENT."""
    margin = 10 * math.exp(0.5)  # far from the other margin, which then rules out nothing
    for n in SIZES:
        found = decide_alone(claim("greater", margin), simulation.draw("lognormal", n, name="equivalence") + margin)
        world, bound = "effect at the equivalence margin, lognormal", RateBound(most=SKEWED_EQUIVALENT[n])
        yield measured(world, n, found, "EQUIVALENT", found.equivalent, bound, "limit")


def rare_failures(simulation: Simulation) -> Iterator[Row]:
    """Yields how often "not less" is SUPPORTED although a seed in ten fails, and whether the note on it holds.

    The margin is the mean loss, so support is wrong. No test can do better where no failing seed was drawn, which has a
    probability of 0.9^n; this is what the note on failing seeds is for, whose bound is exact.
    """
    for n in SIZES:
        bound = RateBound(most=0.9**n + 0.025)
        values = _failing(simulation, n, 0.1)
        found = decide_alone(claim("not less", 0.1 * LOSS), values)
        yield measured(
            '"not less" by 0.05, 1 in 10 seeds loses 0.5', n, found, "SUPPORTED", found.supported, bound, "limit"
        )
    for words, share in (("1 in 10 seeds loses", 0.1), ("3 in 10 seeds lose", 0.3)):
        for n in SIZES[1:]:  # six seeds bound no rate below 39 %
            one, values = claim("not less", share * LOSS), _failing(simulation, n, share)
            missed = failing_rate_bounds(values < -one.margin, one.alpha) < share
            found = decide_alone(one, values)
            yield measured(f"{words} 0.5, note on failing seeds", n, found, "rate above its bound", missed, ALPHA)


def failing_rate_bounds(fails: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the upper bound on the rate of failing seeds in every world, from ``fails`` (worlds, n)."""
    n = fails.shape[1]
    table = np.array([binomial_upper_bound(count, n, 1 - alpha) for count in range(n + 1)])
    return table[fails.sum(axis=1)]


def _failing(simulation: Simulation, n: int, share: float) -> np.ndarray:
    fails = simulation.generator("failing seeds", n, f"{share:g}").random((simulation.worlds, n)) < share
    return NOISE * simulation.draw("normal", n, name=f"failing seeds, {share:g}") - LOSS * fails
