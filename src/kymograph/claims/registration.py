"""Which claims were registered with a directory of runs, and when: before the first run, or after.

``claims.json`` in the directory holds every claim's content and hash. A claim that was changed while runs of its study
existed keeps its first registration, so that the change shows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kymograph.claims.claim import Claim
from kymograph.errors import KymographError
from kymograph.runs.files import SCHEMA, one_at_a_time, read_json, write_atomically

FILE = "claims.json"
REGISTERED, CHANGED, POST_HOC = "registered", "changed after runs existed", "post hoc"


def key(claim: Claim) -> str:
    """Returns the name under which a claim is registered."""
    return f"{claim.study}/{claim.setup}/{claim.name}"


def register(root: Path, claims: Iterable[Claim], runs_of: Mapping[str, int]) -> None:
    """Writes the claims into the directory's registration, before runs are computed.

    ``runs_of`` counts the runs of each study that had been planned or had ended by then: a claim that comes after them
    is marked so, and one that is registered already is only replaced while there are none.
    """
    with one_at_a_time(root):
        known = read(root)
        fresh = dict(known)
        for claim in claims:
            before, runs = known.get(key(claim)), runs_of.get(claim.study, 0)
            if before is None or (before["hash"] != claim.hash and runs == 0):
                fresh[key(claim)] = {
                    "hash": claim.hash,
                    "registered": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "runs_then": runs,
                    "claim": claim.content,
                }
        if fresh != known:
            content = {"schema": SCHEMA, "claims": fresh}
            write_atomically(root / FILE, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


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


def standing(claim: Claim, registered: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns how a claim stands to the registration: registered, changed since (and in what), or post hoc."""
    entry = registered.get(key(claim))
    if entry is None or entry["runs_then"] > 0:
        return POST_HOC
    if entry["hash"] == claim.hash:
        return REGISTERED
    names = changed_fields(entry.get("claim") or {}, claim.content)
    return f"{CHANGED} ({', '.join(names)})" if names else CHANGED


def changed_fields(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns the names of what two statements of a claim differ in."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
