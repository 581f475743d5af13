"""A grid of settings: every claim is made at every point, and all of them form one family."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kymograph.claims.claim import Claim, Quantity

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


def _at(claim: Claim, point: Mapping[str, Any]) -> Claim:
    def at_point(quantity: Quantity) -> Quantity:
        return replace(quantity, where={**point, **quantity.where})

    words = ", ".join(f"{name} {value}" for name, value in point.items())
    pair = claim.interaction
    return replace(
        claim,
        name=f"{claim.name} ({words})",
        text=f"{claim.text}, with {words}",
        left=at_point(claim.left),
        right=at_point(claim.right) if isinstance(claim.right, Quantity) else claim.right,
        interaction=None if pair is None else (at_point(pair[0]), at_point(pair[1])),
        checks=tuple(replace(check, quantity=at_point(check.quantity)) for check in claim.checks),
    )
