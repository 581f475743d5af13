"""Which summary numbers a study's claims compare as ratios, and so belong on a log scale."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from kymograph.claims.claim import Claim
from kymograph.claims.logged import registered_contents
from kymograph.runs.planned import log_of


def compared_as_ratios(claims: Iterable[Claim]) -> frozenset[str]:
    """Returns the keys of the summary numbers that claims compare on the scale "log ratio"."""
    return frozenset(
        quantity.measure.name
        for claim in claims
        if claim.scale == "log ratio"
        for quantity in claim.sides
        if quantity.measure.reduce is None
    )


def registered_claims(root: Path, study: str) -> list[Claim]:
    """Returns the claims about a study that are registered in a directory, without those that cannot be read."""
    found = []
    for content in registered_contents(log_of(root), root, study).values():
        with contextlib.suppress(ValueError):
            found.append(Claim.of(content))
    return found
