"""When a claim is decided: once, over all registered seeds, or at several looks that the registration states.

With several looks, alpha is spent in shares (Lan and DeMets, 1983). Each look's p-value is divided by the share of
alpha that the look may spend, and the smallest quotient so far counts. The shares sum to 1, so the probability that the
quotient falls below alpha at any look is at most alpha, however the looks depend on each other. This holds for both
tests, for small samples, and under Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from kymograph.errors import KymographError
from kymograph.statistics.sign_flips import LEAST_SEEDS, smallest_p

MOST_LOOKS = 10


class PlannedLook(NamedTuple):
    """One look: how many of the registered seeds it uses, from the first, and the share of alpha that it may spend."""

    seeds: int
    share: float


@dataclass(frozen=True)
class Design:
    """The numbers of registered seeds after which claims are decided; a single number is a fixed design."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or self.sizes[0] < 1 or any(later <= earlier for earlier, later in pairwise(self.sizes)):
            raise KymographError("looks must be increasing numbers of seeds, e.g. 10 15 20")
        if self.sequential and self.sizes[0] < LEAST_SEEDS:
            raise KymographError(f"the first look must have at least {LEAST_SEEDS} seeds, not {self.sizes[0]}")
        if len(self.sizes) > MOST_LOOKS:
            raise KymographError(f"a sequential design has at most {MOST_LOOKS} looks, not {len(self.sizes)}")

    @property
    def sequential(self) -> bool:
        """Whether there is more than one look."""
        return len(self.sizes) > 1

    @property
    def looks(self) -> tuple[PlannedLook, ...]:
        """Every look; its share of alpha is the share of seeds that it adds.

        >>> Design((10, 15, 20)).looks
        (PlannedLook(seeds=10, share=0.5), PlannedLook(seeds=15, share=0.25), PlannedLook(seeds=20, share=0.25))
        """
        added = [size - before for before, size in pairwise((0, *self.sizes))]
        return tuple(PlannedLook(size, more / self.sizes[-1]) for size, more in zip(self.sizes, added, strict=True))

    def reached(self, seeds: int) -> tuple[PlannedLook, ...]:
        """Returns the looks that the first ``seeds`` registered seeds complete."""
        return tuple(look for look in self.looks if look.seeds <= seeds)

    @property
    def smallest_p(self) -> float:
        """The smallest two-sided p-value that the exact test can reach at any look, each divided by its share."""
        return min(smallest_p(look.seeds) / look.share for look in self.looks)

    def to_json(self) -> dict[str, Any]:
        """Returns the design as stored in the log."""
        if not self.sequential:
            return {"kind": "fixed"}
        return {"kind": "sequential", "looks": [{"seeds": look.seeds, "share": look.share} for look in self.looks]}

    @staticmethod
    def from_json(content: Mapping[str, Any], seeds: Sequence[int]) -> Design:
        """Returns the design of a registration of ``seeds``; raises ValueError if it cannot be read."""
        if not isinstance(content, Mapping):
            raise ValueError("the design is not an object")
        if content.get("kind") == "fixed":
            return Design((len(seeds),))
        if content.get("kind") != "sequential":
            raise ValueError("the design is neither fixed nor sequential")
        try:
            design = Design(tuple(int(look["seeds"]) for look in content["looks"]))
            shares = [float(look["share"]) for look in content["looks"]]
        except (KeyError, TypeError, KymographError) as error:
            raise ValueError(str(error)) from None
        if shares != [look.share for look in design.looks] or design.sizes[-1] != len(seeds):
            raise ValueError("the shares of its looks are not those of a sequential design over these seeds")
        return design

    def __str__(self) -> str:
        if not self.sequential:
            return f"{self.sizes[0]} seeds"
        return f"looks at {', '.join(map(str, self.sizes[:-1]))} and {self.sizes[-1]} seeds"
