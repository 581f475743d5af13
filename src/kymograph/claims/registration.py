"""The registration status of a claim, and the registrations of directories that predate the log.

Those directories have a ``claims.json`` with every claim's content and hash. Where there is a log, it holds the claims,
and the file is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kymograph.claims.claim import Claim
from kymograph.errors import KymographError
from kymograph.runs.files import read_json

FILE = "claims.json"
REGISTERED, CHANGED, POST_HOC = "registered", "changed after runs existed", "post hoc"


def key(claim: Claim) -> str:
    """Returns the name under which a claim is registered."""
    return f"{claim.study}/{claim.setup}/{claim.name}"


def read(root: Path) -> dict[str, dict[str, Any]]:
    """Returns the claims registered in a directory, by key; empty if there is no registration."""
    if not (root / FILE).exists():
        return {}
    remedy = "restore the file that came with the runs"
    claims = read_json(root / FILE, remedy=remedy).get("claims")
    whole = isinstance(claims, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("hash"), str) and isinstance(entry.get("runs_then"), int)
        for entry in claims.values()
    )
    if not whole:
        raise KymographError(f"{root / FILE} is not a registration of claims; {remedy}")
    return claims  # type: ignore[return-value]


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the names of the fields in which two versions of a claim differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
