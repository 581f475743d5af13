"""How a claim can stand to its registration, and the registrations of directories from before the log.

Those directories have a ``claims.json`` with every claim's content and hash. Since there is a log, it has the claims,
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
    """Returns what is registered with a directory, by the claims' keys; nothing if there is no registration."""
    if not (root / FILE).exists():
        return {}
    remedy = "put back the file that the runs came with"
    claims = read_json(root / FILE, remedy=remedy).get("claims")
    whole = isinstance(claims, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("hash"), str) and isinstance(entry.get("runs_then"), int)
        for entry in claims.values()
    )
    if not whole:
        raise KymographError(f"{root / FILE} is not a registration of claims; {remedy}")
    return claims  # type: ignore[return-value]


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the names of what two statements of a claim differ in."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
