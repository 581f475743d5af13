"""The selftest: every row, and the worst of the known limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kymograph.claims.selftest import false_verdicts, families, limits, looks, power
from kymograph.claims.selftest.rows import Row
from kymograph.claims.selftest.worlds import Simulation
from kymograph.lab.whole_path import Follow, unfollowed, whole_path

SIMULATED = (
    false_verdicts.no_effect,
    false_verdicts.at_the_margin,
    false_verdicts.refutation,
    false_verdicts.equivalence,
    families.no_effects,
    families.some_effects,
    families.at_the_margin,
    looks.sequential,
    looks.peeking,
    power.fixed,
    power.sequential,
    limits.skewed,
    limits.skewed_equivalence,
    families.skewed_at_the_margin,
    limits.rare_failures,
)
"""The rows that need no directory, in the order in which they are shown."""


def selftest(worlds: int, seed: int = 0, follow: Follow = unfollowed) -> Iterator[Row]:
    """Yields every row as soon as it is measured.

    Args:
        worlds: how many worlds of each kind are simulated; whole-path rows have one in forty.
        seed: the seed of the worlds.
        follow: shows the progress of the whole-path rows.
    """
    simulation = Simulation(worlds, seed)
    for group in SIMULATED:
        yield from group(simulation)
    yield from whole_path(simulation, follow)


def worst_limit(rows: Sequence[Row]) -> Row:
    """Returns the known limit with the highest rate of wrong verdicts."""
    return max((row for row in rows if row.kind == "limit"), key=lambda row: row.rate)
