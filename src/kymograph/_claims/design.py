"""How registered claims are to be decided: over which seeds, at which looks, with which settings.

A claim is decided once, over all registered seeds, or at several looks that the registration states. With several
looks, alpha is spent in shares (Lan and DeMets, 1983). Each look's p-value is divided by the share of alpha that the
look may spend, and the smallest quotient so far counts. The shares sum to 1, so the probability that the quotient falls
below alpha at any look is at most alpha, however the looks depend on each other. This holds for both tests, for small
samples, and under Holm's correction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kymograph._claims.grid import Grid
from kymograph._claims.verdict import Point
from kymograph._errors import KymographError
from kymograph._io.writing import plain
from kymograph._runs.declaration import ArmSettings
from kymograph._runs.tuned import Tuned, rules_from_json
from kymograph._statistics.p_values import LEAST_SEEDS, smallest_p

MOST_LOOKS = 10
LEVEL = 0.95
"""The level of a verdict's interval."""


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


@dataclass(frozen=True)
class Staged:
    """The seeds that a verdict rests on, and the looks that they complete."""

    points: tuple[Point, ...]
    """Ordered by seed, or in the order of registration if there are looks."""
    looks: tuple[PlannedLook, ...] = ()
    """The looks, each with its number of points; empty: one look that may spend all of alpha."""
    notes: tuple[str, ...] = ()
    level: float = LEVEL
    """The level of an interval at the last look, such that the intervals of all looks hold jointly."""


def completed(present: Collection[int], seeds: Sequence[int], design: Design) -> tuple[PlannedLook, ...]:
    """Returns the looks whose registered seeds have all run."""
    count = next((index for index, seed in enumerate(seeds) if seed not in present), len(seeds))
    return design.reached(count)


def stage(
    points: Sequence[Point], dropped: Collection[int], seeds: Sequence[int] | None, design: Design | None
) -> Staged:
    """Returns the points that the design allows a verdict to use now; ``dropped`` seeds ran but have no point.

    Before the first look is complete, that is all points at the first look's share of alpha: the verdict is interim.
    """
    if seeds is None or design is None or not design.sequential:
        return Staged(tuple(points))
    rank = {seed: index for index, seed in enumerate(seeds)}
    ordered = sorted(points, key=lambda point: rank[point.seed])
    done = completed({point.seed for point in points} | set(dropped), seeds, design)
    if not done:
        share = design.looks[0].share
        return Staged(tuple(ordered), (PlannedLook(len(ordered), share),), (), 1 - (1 - LEVEL) * share)
    used = tuple(point for point in ordered if rank[point.seed] < done[-1].seeds)
    looks = [PlannedLook(sum(rank[point.seed] < look.seeds for point in used), look.share) for look in done]
    waiting = len(ordered) - len(used)
    notes = [f"{waiting} seeds wait for the look at {design.looks[len(done)].seeds}"] if waiting else []
    kept = tuple(look for look in looks if look.seeds >= LEAST_SEEDS)
    return Staged(used, kept, tuple(notes), 1 - (1 - LEVEL) * done[-1].share)


@dataclass(frozen=True)
class Terms:
    """The seeds, the looks and the settings of a registration."""

    seeds: tuple[int, ...]
    design: Design
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The settings that the user chose at registration."""
    settings: ArmSettings = field(default_factory=ArmSettings)
    """Every arm's settings, these included; empty if the study's code was not available."""
    grid: Grid = field(default_factory=dict)
    """The settings that are varied, with their values: every claim is made at every point."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    """The rule that chooses a setting of each tuned arm, by arm: the rule is registered, not the value."""

    def settings_given(self, defaults: ArmSettings) -> ArmSettings:
        """Returns every arm's registered settings; if there are none, the defaults with the chosen fields."""
        if self.settings or not defaults:
            return self.settings
        return ArmSettings.pack({arm: defaults.of(arm) | dict(self.fields) for arm in defaults.arms})

    def rules_given(self, declared: Mapping[str, Tuned]) -> Mapping[str, Tuned]:
        """Returns the registered tuning rules; if no settings were registered, also those that the study declares."""
        return self.tuned if self.settings else {**declared, **self.tuned}

    def to_json(self) -> dict[str, Any]:
        """Returns the terms as stored in the log."""
        settings = {"settings": self.settings.to_json()} if self.settings else {}
        return {
            "seeds": list(self.seeds),
            "design": self.design.to_json(),
            "fields": plain(dict(self.fields)),
            **settings,
            **({"tuned": {arm: rule.to_json() for arm, rule in self.tuned.items()}} if self.tuned else {}),
            # A list, because the log sorts the keys of objects, and claims are named after the settings in their order.
            **({"grid": [[name, list(values)] for name, values in self.grid.items()]} if self.grid else {}),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Terms:
        """Returns the terms of a registration; raises ValueError if it cannot be read."""
        seeds, fields = content.get("seeds"), content.get("fields", {})
        if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds) or not seeds:
            raise ValueError("a registration states no seeds")
        if not isinstance(fields, dict):
            raise ValueError("a registration's settings must be an object")
        design = Design.from_json(content.get("design", {}), seeds)
        settings = ArmSettings.from_json(content["settings"]) if "settings" in content else ArmSettings()
        tuned = rules_from_json(content.get("tuned", {}))
        return Terms(tuple(seeds), design, fields, settings, _grid(content.get("grid", {})), tuned)


def _grid(content: Any) -> dict[str, list[Any]]:
    """Returns the grid of a log entry, which lists pairs of a setting and its values."""
    try:
        grid = dict(content)
    except (TypeError, ValueError):
        grid = None
    if grid is None or not all(isinstance(values, list) and values for values in grid.values()):
        raise ValueError("a registration's grid must be a list of settings and their values")
    return grid
