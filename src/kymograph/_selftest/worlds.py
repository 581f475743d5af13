"""Simulated worlds with a known truth, many of their families decided at once, and one row per kind of world.

Tests, hypotheses and the rule from p-values to an outcome are the judge's. Only the looks and Holm's correction are
implemented a second time, on arrays; tests check that every outcome is the judge's.

A rate measured in a finite number of worlds is itself uncertain. A row fails only if the exact binomial interval of its
rate (Clopper and Pearson, 1934) lies beyond the bound. The interval's level allows for a hundred rows: a judge that
keeps all its bounds fails at most one selftest in a thousand by chance. With 10,000 worlds, a bound of 5 % fails from
6 % on, and one of 2.5 % from 3.2 % on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kymograph._claims.claim import Claim, Direction, Measure, Side
from kymograph._claims.decision import Bounds, Decided, PValues, decided, direction_sign, outcome_bounds, p_values
from kymograph._claims.design import Design, PlannedLook
from kymograph._statistics.intervals import binomial_upper_bound
from kymograph._statistics.power import ManySamples, holm_many
from kymograph._streams import stream_seed

SIZES = (6, 10, 20)
LAWS = ("normal", "lognormal", "heavy-tailed")
"""Normal; lognormal with sigma 1; Student's t with two degrees of freedom, which has no variance."""
_BLOCK = 500
"""How many samples are tested at once, so that their subset tables fit the processor's cache."""
MOST_ROWS = 100
LEVEL = 1 - 0.001 / MOST_ROWS
"""The level of the bound on a measured rate."""
Kind = Literal["error", "power", "limit", "cost"]
"""What a row's rate is: an error bounded by alpha, power, a known limit, or the cost of not registering."""


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
    left, right = (Side(arm, Measure("x")) for arm in ("one", "other"))
    return Claim(f"{direction} by {margin:g}", "selftest", "", left, right, direction, margin, origin="")


def decide_many(claims: Sequence[Claim], values: np.ndarray, looks: Sequence[PlannedLook] = ()) -> Decided:
    """Returns the decisions on one family of claims in many worlds, as masks (worlds, claims).

    Args:
        claims: the claims of the family.
        values: (worlds, claims, n) differences left - right, one per seed.
        looks: the looks of a sequential design reached so far; the last one uses all values.
    """
    weighed = [_weigh(claim, values[:, index], looks) for index, claim in enumerate(claims)]
    p = PValues(*(np.stack(columns, axis=1) for columns in zip(*weighed, strict=True)))
    alpha = np.array([claim.alpha for claim in claims])
    return decided(p, holm_many(p.direction), holm_many(p.equivalence), alpha)


def decide_alone(claim: Claim, values: np.ndarray) -> Decided:
    """Returns the decisions on a claim that is alone in its family, from ``values`` (worlds, n)."""
    return decide_many([claim], values[:, None])


def decide_at_looks(claims: Sequence[Claim], values: np.ndarray, design: Design) -> list[Decided]:
    """Returns the decisions at every look of a design, as a user sees them at that look."""
    return [decide_many(claims, values[:, :, : look.seeds], design.reached(look.seeds)) for look in design.looks]


def _weigh(claim: Claim, values: np.ndarray, looks: Sequence[PlannedLook]) -> PValues:
    """Returns the claim's p-values in every world: the larger of both tests', divided by the looks' shares of alpha."""
    oriented, bounds = direction_sign(claim) * values, outcome_bounds(claim)
    stages = [
        _tests(oriented[:, : look.seeds], bounds, claim.alpha) for look in looks or (PlannedLook(values.shape[1], 1.0),)
    ]
    shares = [look.share for look in looks] or [1.0]
    spent = (
        np.minimum(1.0, np.min([p / share for p, share in zip(kind, shares, strict=True)], axis=0))
        for kind in zip(*stages, strict=True)
    )
    return PValues(*spent)


def _tests(oriented: np.ndarray, bounds: Bounds, alpha: float) -> PValues:
    """Returns the larger of the two tests' p-values for every sample; above alpha, only a lower bound on it."""
    student = functools.cache(ManySamples(oriented).t_p)

    @functools.cache
    def flips(against: float, alternative: Literal["greater", "less"]) -> np.ndarray:
        # Neither shares of alpha nor Holm's correction make a p-value smaller. Where Student's is above alpha, nothing
        # can be decided, so the slow sign-flip test is skipped.
        p = student(against, alternative).copy()
        near = np.flatnonzero(p <= alpha)
        for start in range(0, len(near), _BLOCK):
            block = near[start : start + _BLOCK]
            p[block] = ManySamples(oriented[block]).sign_flip_p(against, alternative)
        return p

    return PValues(*map(np.maximum, p_values(bounds, student), p_values(bounds, flips)))


@dataclass(frozen=True)
class RateBound:
    """The range in which a rate must lie; either end may be open."""

    most: float = 1.0
    least: float = 0.0

    def holds(self, count: int, trials: int) -> bool:
        """Returns whether ``count`` of ``trials`` are compatible with a rate within the bound.

        >>> RateBound(most=0.05).holds(6, 100), RateBound(most=0.05).holds(600, 10_000)
        (True, False)
        """
        upper = binomial_upper_bound(count, trials, LEVEL)
        lower = 1.0 - binomial_upper_bound(trials - count, trials, LEVEL)
        return lower <= self.most and upper >= self.least

    def __str__(self) -> str:
        if self.least > 0 and self.most < 1:
            return f"{100 * self.least:.3g} to {100 * self.most:.3g} %"
        return f"at least {100 * self.least:.3g} %" if self.least > 0 else f"at most {100 * self.most:.3g} %"


@dataclass(frozen=True)
class Row:
    """What the judge decided in many worlds of one kind."""

    world: str
    """What is true in these worlds, and what is claimed."""
    seeds: str
    """How many; under a sequential design, the mean and the maximum."""
    worlds: int
    supported: float
    """The share of verdicts over all claims and worlds, as for the next two."""
    refuted: float
    equivalent: float
    what: str
    """What is counted, e.g. a direction where there is none."""
    count: int
    """The number of worlds in which it happened."""
    bound: RateBound
    kind: Kind = "error"

    @property
    def rate(self) -> float:
        """The share of worlds in which it happened."""
        return self.count / self.worlds

    @property
    def passed(self) -> bool:
        """Whether the rate is compatible with its bound."""
        return self.bound.holds(self.count, self.worlds)


def measured(
    world: str,
    seeds: int | str,
    decisions: Decided,
    what: str,
    happened: np.ndarray,
    bound: RateBound,
    kind: Kind = "error",
) -> Row:
    """Returns the row of a simulation; ``happened``, (worlds,) or (worlds, claims), is counted once per world."""
    worlds = len(happened)
    count = int(happened.reshape(worlds, -1).any(axis=1).sum())
    supported, refuted, equivalent = (float(mask.mean()) for mask in decisions)
    return Row(world, str(seeds), worlds, supported, refuted, equivalent, what, count, bound, kind)
