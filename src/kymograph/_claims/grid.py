"""Claims at several settings: made at every point of a grid, judged as one family, taken together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kymograph._claims.claim import Claim, Side
from kymograph._claims.verdict import Verdict
from kymograph._runs.spec import canonical_json

Grid = Mapping[str, Sequence[Any]]
"""The values of each setting that is varied."""


def grid_points(grid: Grid) -> list[dict[str, Any]]:
    """Returns the settings of every point of a grid, the last setting varying fastest; one empty point for no grid.

    >>> grid_points({"lr": [0.1, 0.01], "depth": [2]})
    [{'lr': 0.1, 'depth': 2}, {'lr': 0.01, 'depth': 2}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def claims_on_grid(claims: Sequence[Claim], grid: Grid) -> list[Claim]:
    """Returns every claim at every point of the grid, named after the point."""
    if not grid:
        return list(claims)
    return [_at(claim, point) for claim in claims for point in grid_points(grid)]


def point_text(point: Mapping[str, Any]) -> str:
    """Returns the values of settings as text.

    >>> point_text({"lr": 0.1, "depth": 2})
    'lr 0.1, depth 2'
    """
    return ", ".join(f"{name} {value}" for name, value in point.items())


def _at(claim: Claim, point: Mapping[str, Any]) -> Claim:
    def at_point(side: Side) -> Side:
        return replace(side, where={**point, **side.where})

    words, pair = point_text(point), claim.interaction
    return replace(
        claim,
        name=f"{claim.name} ({words})",
        text=f"{claim.text}, with {words}",
        left=at_point(claim.left),
        right=at_point(claim.right) if isinstance(claim.right, Side) else claim.right,
        interaction=None if pair is None else (at_point(pair[0]), at_point(pair[1])),
        checks=tuple(replace(check, quantity=at_point(check.quantity)) for check in claim.checks),
    )


@dataclass(frozen=True)
class ClaimAcrossSettings:
    """One claim with its verdict at every setting at which it was judged."""

    name: str
    settings: tuple[str, ...]
    """The settings that vary; empty if the claim was judged once."""
    verdicts: tuple[Verdict, ...]

    def point(self, verdict: Verdict) -> dict[str, Any]:
        """Returns the values of the varying settings at which a verdict was reached."""
        return {name: verdict.claim.left.where.get(name) for name in self.settings}


def across_settings(verdicts: Iterable[Verdict]) -> list[ClaimAcrossSettings]:
    """Returns the verdicts grouped by claim, ignoring the settings, in order."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(_statement(verdict.claim), []).append(verdict)
    return [_together(group) for group in groups.values()]


def _together(verdicts: list[Verdict]) -> ClaimAcrossSettings:
    names = [verdict.claim.name for verdict in verdicts]
    if len(verdicts) == 1:
        return ClaimAcrossSettings(names[0], (), tuple(verdicts))
    wheres = [verdict.claim.left.where for verdict in verdicts]
    settings = dict.fromkeys(name for where in wheres for name in where)
    varying = tuple(name for name in settings if len({repr(where.get(name)) for where in wheres}) > 1)
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    return ClaimAcrossSettings(shared.rpartition(" (")[0] or shared.strip(" ,(") or names[0], varying, tuple(verdicts))


def _statement(claim: Claim) -> str:
    """Returns what a claim tests as JSON, without its name, its text and the settings of its runs."""

    def bare(side: Side | float) -> Any:
        if not isinstance(side, Side):
            return side
        different = {name: value for name, value in side.where.items() if claim.left.where.get(name) != value}
        return [side.arm, vars(side.measure), different]  # settings in which two sides differ belong to the claim

    content = {name: value for name, value in claim.content.items()
               if name not in ("name", "text", "origin", "left", "right", "interaction", "checks")}  # fmt: skip
    sides = [bare(claim.left), bare(claim.right), *map(bare, claim.interaction or ())]
    return canonical_json([content, sides, [bare(check.quantity) for check in claim.checks]])
