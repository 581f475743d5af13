"""Which of a claim's seeds a look may use: under a sequential design, those of the last complete look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kymograph.claims.design import Design, PlannedLook
from kymograph.claims.verdict import Point
from kymograph.statistics.sign_flips import LEAST_SEEDS

LEVEL = 0.95


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
