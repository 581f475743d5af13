"""Judging runs from elsewhere: two directories of CSV files, each one arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from kymograph.claims import registration
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.files import read_claims
from kymograph.claims.judge import decide_claims
from kymograph.claims.verdict import Verdicts
from kymograph.claims.world import World, has_planned_runs
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.formats.csv_arms import ImportedRun, read_csv_arm

DIRECTIONS = ("less", "greater")
"""What can be claimed of a last value without a margin; other directions need a file of claims."""


def judge_csv(
    first: str | Path,
    second: str | Path,
    claims: str | Path | None = None,
    direction: str | Sequence[str] = (),
) -> Verdicts:
    """Judges two directories of CSV files (columns seed, step, value), each one arm under its own name.

    Args:
        first: the arm that the claims are about.
        second: the arm that it is compared with.
        claims: a TOML or Python file of claims about the two arms.
        direction: without claims, whether the last value is claimed to be ``less`` or ``greater`` in the first arm: one
            word for every series, or ``["loss=less", "accuracy=greater"]``. Such a claim is not registered, so its
            verdict is marked post hoc.
    """
    words = [direction] if isinstance(direction, str) else list(direction)
    if claims is None and not words:
        raise KymographError(
            "state whether a lower or a higher value is claimed, before the files are read: "
            "--direction less, --direction greater, or one for each series, e.g. --direction loss=less accuracy=greater"
        )
    if claims is not None and words:
        raise KymographError("the claims in a file have their own directions; drop --direction or --claims")
    arms = [read_csv_arm(first), read_csv_arm(second)]
    if arms[0][0].arm == arms[1][0].arm:
        raise KymographError(f"both directories are called {arms[0][0].arm!r}, which names the arms; rename one")
    world = World([run for arm in arms for run in arm])
    asked_for = read_claims(claims) if claims is not None else _last_values(arms, words)
    ready = [claim for claim in asked_for if has_planned_runs(claim, world)]
    if not ready:
        raise KymographError(f"no claim is about the arms {arms[0][0].arm} and {arms[1][0].arm}")
    return Verdicts(tuple(decide_claims(ready, world, lambda claim: registration.POST_HOC)))


def directions_by_series(words: Sequence[str], series: Sequence[str]) -> dict[str, str]:
    """Returns the direction that is claimed for each series.

    >>> directions_by_series(["less"], ["error", "loss"])
    {'error': 'less', 'loss': 'less'}
    >>> directions_by_series(["loss=less", "accuracy=greater"], ["accuracy", "error", "loss"])
    {'loss': 'less', 'accuracy': 'greater'}
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, direction = word.rpartition("=")
        if direction not in DIRECTIONS:
            raise KymographError(f"--direction takes less or greater, or SERIES=less, not {word!r}")
        if not equals and len(words) > 1:
            raise KymographError(f"--direction {word} applies to every series; name one series with each direction")
        if equals and name not in series:
            raise KymographError(f"the two directories share no series {name!r}{did_you_mean(name, series)}")
        found |= dict.fromkeys([name] if equals else series, direction)
    return found


def _last_values(arms: Sequence[Sequence[ImportedRun]], words: Sequence[str]) -> list[Claim]:
    """Returns a claim about the last value of every series that has a direction."""
    names = [{name for run in arm for name in run.series} for arm in arms]
    shared = sorted(names[0] & names[1])
    if not shared:
        raise KymographError("the two directories share no CSV file name; name the files after the series")
    one, other = arms[0][0].arm, arms[1][0].arm
    return [
        Claim(
            f"last {name}", "csv", "own", f"the last {name} is {direction} in {one} than in {other}",
            "asked on the command line",
            Quantity(one, Measure(name, "last")), Quantity(other, Measure(name, "last")),
            cast(Literal["less", "greater"], direction), 0.0,
        )
        for name, direction in directions_by_series(words, shared).items()
    ]  # fmt: skip
