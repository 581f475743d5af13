"""Rows of the selftest: how often the judge errs in each kind of simulated world, each rate against its bound.

**A claim that is alone in its family.** A wrong direction is decided in at most 5 % of worlds, half of that for support
and half for refutation; a wrong EQUIVALENT in at most 5 %. The rows cover the worst cases: no effect, and effects
exactly at what a verdict must reject.

**Known limits**, which no choice of seeds removes; each has its own bound. Both tests are about means. A mean that
rests on rare, large values cannot be seen in a sample that has none of them. A skewed distribution with few seeds is a
mild form of this: the sample's mean and standard deviation are both too small.

**Looking more than once**: its cost without a registration, and the errors of a sequential design. A wrong verdict at
any look counts, even if a later look would reverse it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from kymograph._claims.claim import Direction
from kymograph._claims.decision import Decided
from kymograph._claims.design import Design
from kymograph._selftest.worlds import (
    LAWS,
    SIZES,
    Kind,
    RateBound,
    Row,
    Simulation,
    claim,
    decide_alone,
    decide_at_looks,
    decide_many,
    measured,
)
from kymograph._statistics.intervals import binomial_upper_bound
from kymograph._statistics.p_values import LEAST_SEEDS

ALPHA, HALF = RateBound(most=0.05), RateBound(most=0.025)
MARGIN = 2.0
"""In standard deviations of the differences; large enough for six seeds to show equivalence."""
_AT_MARGIN: dict[Direction, int] = {"greater": 1, "less": -1, "not less": -1, "not greater": 1, "equal": 1}
"""The side of zero on which the deciding margin lies."""
FAMILY_SIZES = (5, 12)
SEEDS = (10, 20)
AT_MARGIN = 8
TWICE_ALPHA = RateBound(most=0.1)
"""Direction and equivalence each have their own alpha."""
SKEWED_FAMILY = RateBound(most=0.52)
LOSS, NOISE = 0.5, 0.01
"""The loss of a failing seed, and the standard deviation of all seeds; the margin is the mean loss."""
SKEWED_LESS = {6: 0.12, 10: 0.17, 20: 0.15}
SKEWED_EQUIVALENT = {6: 0.23, 10: 0.22, 20: 0.19}
"""Bounds by number of seeds, for lognormal values with sigma 1."""
DESIGNS = (Design((6, 8, 10)), Design((10, 15, 20)))
PEEKING_UP_TO = 20
PEEKING = RateBound(least=0.14, most=0.19)
"""The cost of looking after every seed; a lower rate would mean a broken simulation, a higher one a faulty test."""
FAMILY = 6
LEAST = {10: 0.78, 20: 0.98}
"""The least power of a fixed design, by number of seeds."""
LEAST_IN_FAMILY = 0.38
LEAST_SEQUENTIAL = {10: 0.45, 20: 0.94}
"""Low at 10, because the first look, at 6 seeds, decides nothing: 2/2^6 is above its share of alpha, 0.6 x 0.05."""


def no_effect(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found between two arms with the same distribution."""
    for law in LAWS:
        for n in SIZES:
            pairs = simulation.draw(law, 2, n, name="no effect")
            judged = decide_alone(claim(), pairs[:, 0] - pairs[:, 1])
            yield measured(f"no effect, {law}", n, judged, "a direction", judged.directed, ALPHA)


def at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields how often an effect exactly at the margin is called larger or smaller."""
    for direction, sign in _AT_MARGIN.items():
        for n in SIZES:
            world = f'"{direction}", effect at the margin'
            judged = decide_alone(claim(direction, MARGIN), simulation.draw("normal", n, name=world) + sign * MARGIN)
            if direction in ("greater", "less"):
                yield measured(world, n, judged, "SUPPORTED", judged.supported, HALF)
            else:  # support and refutation must both reject the margin
                yield measured(world, n, judged, "a direction", judged.directed, ALPHA)


def equivalence(simulation: Simulation) -> Iterator[Row]:
    """Yields how often an effect exactly at the equivalence margin is called EQUIVALENT."""
    for n in SIZES:
        judged = decide_alone(claim("greater", MARGIN), simulation.draw("normal", n, name="equivalence") + MARGIN)
        yield measured("effect at the equivalence margin", n, judged, "EQUIVALENT", judged.equivalent, ALPHA)


def refutation(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a zero effect, or one smaller than the margin, is said to go the other way."""
    for world, effect in (("no effect, margin 1 sd", 0.0), ("effect 0.1 sd, margin 1 sd", 0.1)):
        for n in SIZES:
            judged = decide_alone(claim("greater", 1.0), simulation.draw("normal", n, name=world) + effect)
            yield measured(world, n, judged, "REFUTED", judged.refuted, HALF)


def no_effects(simulation: Simulation) -> Iterator[Row]:
    """Yields how often any direction is found in a family without effects: independent claims, or one shared arm."""
    for size in FAMILY_SIZES:
        for n in SEEDS:
            for world, values in (
                ("independent claims", simulation.draw("normal", size, n, name="family")),
                ("claims against one arm", _against_one_arm(simulation, size, n)),
            ):
                judged = decide_many([claim()] * size, values)
                yield measured(f"no effect, {size} {world}", n, judged, "any direction", judged.directed, ALPHA)


def some_effects(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found for any claim without an effect, next to claims with a large one.

    Holm's correction weakens with every claim that is decided: here it is at its weakest for the remaining claims.
    """
    size, real, n = 6, 3, 10
    values = simulation.draw("normal", size, n, name="family with effects")
    values[:, :real] += 5.0
    judged = decide_many([claim()] * size, values)
    wrong = judged.directed[:, real:]
    yield measured(
        f"{real} large effects, {size - real} claims without", n, judged, "any wrong direction", wrong, ALPHA
    )


def family_at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields how often any effect is called EQUIVALENT, or larger, in a family whose effects are all at the margin."""
    for n in SEEDS:
        values = simulation.draw("normal", AT_MARGIN, n, name="family at the margin") + MARGIN
        judged = decide_many([claim("greater", MARGIN)] * AT_MARGIN, values)
        yield measured(f"{AT_MARGIN} effects at the margin", n, judged, "any EQUIVALENT", judged.equivalent, ALPHA)
        yield measured(
            f"{AT_MARGIN} effects at the margin", n, judged, "any wrong verdict", judged.anything, TWICE_ALPHA
        )


def skewed_at_the_margin(simulation: Simulation) -> Iterator[Row]:
    """Yields the same for lognormal differences: a known limit."""
    margin, n = 10 * math.exp(0.5), 10
    values = simulation.draw("lognormal", AT_MARGIN, n, name="family at the margin") + margin
    judged = decide_many([claim("greater", margin)] * AT_MARGIN, values)
    world = f"{AT_MARGIN} lognormal effects at the margin"
    yield measured(world, n, judged, "any EQUIVALENT", judged.equivalent, SKEWED_FAMILY, "limit")


def _against_one_arm(simulation: Simulation, size: int, n: int) -> np.ndarray:
    """Returns the differences (worlds, size, n) of ``size`` arms from one shared arm; their correlation is one half."""
    arms = simulation.draw("normal", size + 1, n, name="arms")
    differences: np.ndarray = arms[:, 1:] - arms[:, :1]
    return differences


def skewed(simulation: Simulation) -> Iterator[Row]:
    """Yields how often one arm's lognormal values are called less, or greater, than their own mean."""
    for n in SIZES:
        values = simulation.draw("lognormal", n, name="one arm")
        judged = decide_alone(claim("less"), values)
        bound = RateBound(most=SKEWED_LESS[n])
        yield measured(
            'one lognormal arm "less" than its mean', n, judged, "SUPPORTED", judged.supported, bound, "limit"
        )
        judged = decide_alone(claim("greater"), values)
        yield measured('one lognormal arm "greater" than its mean', n, judged, "SUPPORTED", judged.supported, HALF)


def skewed_equivalence(simulation: Simulation) -> Iterator[Row]:
    """Yields how often lognormal differences at the margin are called EQUIVALENT."""
    margin = 10 * math.exp(0.5)  # so large that the test against the other margin passes
    for n in SIZES:
        judged = decide_alone(claim("greater", margin), simulation.draw("lognormal", n, name="equivalence") + margin)
        world, bound = "effect at the equivalence margin, lognormal", RateBound(most=SKEWED_EQUIVALENT[n])
        yield measured(world, n, judged, "EQUIVALENT", judged.equivalent, bound, "limit")


def rare_failures(simulation: Simulation) -> Iterator[Row]:
    """Yields how often "not less" is SUPPORTED although one seed in ten fails, and how often the note on it is wrong.

    The margin is the mean loss, so support is wrong. No test can do better when no failing seed was drawn, which has
    probability 0.9^n. The note on failing seeds covers this case: its bound is exact.
    """
    for n in SIZES:
        bound = RateBound(most=0.9**n + 0.025)
        values = _failing(simulation, n, 0.1)
        judged = decide_alone(claim("not less", 0.1 * LOSS), values)
        yield measured(
            '"not less" by 0.05, 1 in 10 seeds loses 0.5',
            n,
            judged,
            "SUPPORTED",
            judged.supported,
            bound,
            "limit",
        )
    for words, share in (("1 in 10 seeds loses", 0.1), ("3 in 10 seeds lose", 0.3)):
        for n in SIZES[1:]:  # with six seeds the bound is never below 39 %
            not_less, values = claim("not less", share * LOSS), _failing(simulation, n, share)
            missed = failing_rate_bounds(values < -not_less.margin, not_less.alpha) < share
            judged = decide_alone(not_less, values)
            yield measured(f"{words} 0.5, note on failing seeds", n, judged, "rate above its bound", missed, ALPHA)


def failing_rate_bounds(fails: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the upper bound on the rate of failing seeds in every world, (worlds,), from ``fails`` (worlds, n)."""
    n = fails.shape[1]
    table = np.array([binomial_upper_bound(count, n, 1 - alpha) for count in range(n + 1)])
    bounds: np.ndarray = table[fails.sum(axis=1)]
    return bounds


def _failing(simulation: Simulation, n: int, share: float) -> np.ndarray:
    fails = simulation.generator("failing seeds", n, f"{share:g}").random((simulation.worlds, n)) < share
    return NOISE * simulation.draw("normal", n, name=f"failing seeds, {share:g}") - LOSS * fails


def peeking(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a direction is found by looking after every seed, as if each look were the only one."""
    values = simulation.draw("normal", PEEKING_UP_TO, name="peeking")
    sizes = range(LEAST_SEEDS, PEEKING_UP_TO + 1)
    looks = [decide_alone(claim(), values[:, :n]) for n in sizes]
    world = "no effect, not registered, a look at every n from 6"
    yield measured_at_looks(world, looks, sizes, "a direction at any look", at_any_look(looks), PEEKING, "cost")


def sequential(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a sequential design finds a direction or equivalence where there is none."""
    for design in DESIGNS:
        values = simulation.draw("normal", 1, design.sizes[-1], name="sequential")
        looks = decide_at_looks([claim()], values, design)
        wrong = at_any_look(looks)
        yield measured_at_looks(f"no effect, {design}", looks, design.sizes, "a direction at any look", wrong, ALPHA)
    for design in DESIGNS:
        values = simulation.draw("normal", 1, design.sizes[-1], name="sequential, margin") + MARGIN
        looks = decide_at_looks([claim("greater", MARGIN)], values, design)
        wrong = np.any([look.equivalent for look in looks], axis=0)
        yield measured_at_looks(f"at the margin, {design}", looks, design.sizes, "EQUIVALENT at any look", wrong, ALPHA)
    design, size = DESIGNS[1], 5
    values = simulation.draw("normal", size, design.sizes[-1], name="sequential family")
    looks = decide_at_looks([claim()] * size, values, design)
    world, wrong = f"no effect, {size} claims, {design}", at_any_look(looks)
    yield measured_at_looks(world, looks, design.sizes, "any direction at any look", wrong, ALPHA)


def power_fixed(simulation: Simulation) -> Iterator[Row]:
    """Yields how often the effect is found by a claim on its own, and by the only one of six that has an effect."""
    for n, least in LEAST.items():
        judged = decide_alone(claim(), simulation.draw("normal", n, name="power") + 1.0)
        yield measured("effect of 1 sd", n, judged, "SUPPORTED", judged.supported, RateBound(least=least), "power")
    n = 10
    values = simulation.draw("normal", FAMILY, n, name="power in a family")
    values[:, 0] += 1.0
    judged = decide_many([claim()] * FAMILY, values)
    bound = RateBound(least=LEAST_IN_FAMILY)
    yield measured(
        f"effect of 1 sd, 1 of {FAMILY} claims", n, judged, "SUPPORTED", judged.supported[:, 0], bound, "power"
    )


def power_sequential(simulation: Simulation) -> Iterator[Row]:
    """Yields how often a sequential design finds the effect, and with how many seeds."""
    for design in DESIGNS:
        n = design.sizes[-1]
        looks = decide_at_looks([claim()], simulation.draw("normal", n, name="power")[:, None] + 1.0, design)
        right, bound = stopped(looks).supported, RateBound(least=LEAST_SEQUENTIAL[n])
        yield measured_at_looks(f"effect of 1 sd, {design}", looks, design.sizes, "SUPPORTED", right, bound, "power")


def measured_at_looks(
    world: str,
    looks: Sequence[Decided],
    sizes: Sequence[int],
    what: str,
    happened: np.ndarray,
    bound: RateBound,
    kind: Kind = "error",
) -> Row:
    """Returns the row of worlds that stop as soon as all claims are decided, from the decisions at every look."""
    return measured(world, seeds_text(looks, sizes), stopped(looks), what, happened, bound, kind)


def at_any_look(looks: Sequence[Decided]) -> np.ndarray:
    """Returns whether a direction was decided at any look, (worlds, claims)."""
    directed: np.ndarray = np.any([look.directed for look in looks], axis=0)
    return directed


def stopped(looks: Sequence[Decided]) -> Decided:
    """Returns the decisions when stopping at the first look that decides all claims, or at the last."""
    last = _stops(looks)
    return Decided(*(np.stack(masks)[last, np.arange(len(last))] for masks in zip(*looks, strict=True)))


def seeds_text(looks: Sequence[Decided], sizes: Sequence[int]) -> str:
    """Returns the mean number of seeds used when stopping as soon as all claims are decided, and the maximum."""
    return f"{np.array(sizes)[_stops(looks)].mean():.1f} of {sizes[-1]}"


def _stops(looks: Sequence[Decided]) -> np.ndarray:
    """Returns the index of the look at which each world stops, (worlds,)."""
    done = np.stack([look.anything.all(axis=1) for look in looks])
    done[-1] = True
    first: np.ndarray = done.argmax(axis=0)
    return first
