"""Which summary numbers the claims about a study compare as ratios, and so belong on a log scale."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from kymograph.claims import registration
from kymograph.claims.claim import Claim


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
    """Returns the claims about a study that are registered with a directory, as far as they can be read."""
    found = []
    for entry in registration.read(root).values():
        with contextlib.suppress(ValueError):
            found.append(Claim.of(entry.get("claim") or {}))
    return [claim for claim in found if claim.study == study]
