"""Rows about known limits of the tests, which no choice of seeds removes; each has its own bound.

Both tests are about means. A mean that rests on rare, large values cannot be seen in a sample that has none of them. A
skewed distribution with few seeds is a mild form of this: the sample's mean and standard deviation are both too small.
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
"""The loss of a failing seed, and the standard deviation of all seeds; the margin is the mean loss."""
SKEWED_LESS = {6: 0.12, 10: 0.17, 20: 0.15}
SKEWED_EQUIVALENT = {6: 0.23, 10: 0.22, 20: 0.19}
"""Bounds by number of seeds, for lognormal values with sigma 1."""


def skewed(simulation: Simulation) -> Iterator[Row]:
    """Yields how often one arm's lognormal quantity is called less, or greater, than its own mean."""
    for n in SIZES:
        values = simulation.draw("lognormal", n, name="one arm")
        found = decide_alone(claim("less"), values)
        bound = RateBound(most=SKEWED_LESS[n])
        yield measured('one lognormal arm "less" than its mean', n, found, "SUPPORTED", found.supported, bound, "limit")
        found = decide_alone(claim("greater"), values)
        yield measured('one lognormal arm "greater" than its mean', n, found, "SUPPORTED", found.supported, HALF)


def skewed_equivalence(simulation: Simulation) -> Iterator[Row]:
    """Yields how often lognormal differences at the margin are called EQUIVALENT."""
    margin = 10 * math.exp(0.5)  # so large that the test against the other margin passes
    for n in SIZES:
        found = decide_alone(claim("greater", margin), simulation.draw("lognormal", n, name="equivalence") + margin)
        world, bound = "effect at the equivalence margin, lognormal", RateBound(most=SKEWED_EQUIVALENT[n])
        yield measured(world, n, found, "EQUIVALENT", found.equivalent, bound, "limit")


def rare_failures(simulation: Simulation) -> Iterator[Row]:
    """Yields how often "not less" is SUPPORTED although one seed in ten fails, and how often the note on it is wrong.

    The margin is the mean loss, so support is wrong. No test can do better when no failing seed was drawn, which has
    probability 0.9^n. The note on failing seeds covers this case: its bound is exact.
    """
    for n in SIZES:
        bound = RateBound(most=0.9**n + 0.025)
        values = _failing(simulation, n, 0.1)
        found = decide_alone(claim("not less", 0.1 * LOSS), values)
        yield measured(
            '"not less" by 0.05, 1 in 10 seeds loses 0.5', n, found, "SUPPORTED", found.supported, bound, "limit"
        )
    for words, share in (("1 in 10 seeds loses", 0.1), ("3 in 10 seeds lose", 0.3)):
        for n in SIZES[1:]:  # with six seeds the bound is never below 39 %
            one, values = claim("not less", share * LOSS), _failing(simulation, n, share)
            missed = failing_rate_bounds(values < -one.margin, one.alpha) < share
            found = decide_alone(one, values)
            yield measured(f"{words} 0.5, note on failing seeds", n, found, "rate above its bound", missed, ALPHA)


def failing_rate_bounds(fails: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the upper bound on the rate of failing seeds in every world, (worlds,), from ``fails`` (worlds, n)."""
    n = fails.shape[1]
    table = np.array([binomial_upper_bound(count, n, 1 - alpha) for count in range(n + 1)])
    return table[fails.sum(axis=1)]


def _failing(simulation: Simulation, n: int, share: float) -> np.ndarray:
    fails = simulation.generator("failing seeds", n, f"{share:g}").random((simulation.worlds, n)) < share
    return NOISE * simulation.draw("normal", n, name=f"failing seeds, {share:g}") - LOSS * fails
