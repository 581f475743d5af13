"""One row of the selftest: what the judge decided in many worlds of one kind, and the bound on its rate.

A rate measured in a finite number of worlds is itself uncertain. A row fails only if the exact binomial interval of its
rate (Clopper and Pearson, 1934) lies beyond the bound. The interval's level allows for a hundred rows: a judge that
keeps all its bounds fails at most one selftest in a thousand by chance. With 10,000 worlds, a bound of 5 % fails from
6 % on, and one of 2.5 % from 3.2 % on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kymograph.claims.selftest.many_decisions import ManyDecisions
from kymograph.statistics.intervals import binomial_upper_bound

MOST_ROWS = 100
LEVEL = 1 - 0.001 / MOST_ROWS
"""The level of the bound on a measured rate."""

Kind = Literal["error", "power", "limit", "cost"]
"""What a row's rate is: an error bounded by alpha, power, a known limit, or the cost of not registering."""


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
    found: ManyDecisions,
    what: str,
    happened: np.ndarray,
    bound: RateBound,
    kind: Kind = "error",
) -> Row:
    """Returns the row of a simulation; ``happened``, (worlds,) or (worlds, claims), is counted once per world."""
    worlds = len(happened)
    count = int(happened.reshape(worlds, -1).any(axis=1).sum())
    supported, refuted, equivalent = (float(one.mean()) for one in (found.supported, found.refuted, found.equivalent))
    return Row(world, str(seeds), worlds, supported, refuted, equivalent, what, count, bound, kind)
