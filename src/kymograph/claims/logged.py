"""Registrations in the log: which claims, to be decided over which seeds, and whether a run came after them.

A registration is an entry of the log. A claim is registered for a run if the registration is among the ancestors of the
log's heads that the run stored when it started; where files were in between, and what clocks say, does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kymograph.claims.claim import Claim
from kymograph.claims.registration import CHANGED, POST_HOC, REGISTERED, changed_fields, key
from kymograph.runs import log
from kymograph.runs.log import SHORT, Log

REGISTRATION = "registration"
NOT_LOGGED = f"not logged, {POST_HOC}"
FIXED: Mapping[str, Any] = {"kind": "fixed"}
"""The design in which all registered seeds are judged once."""


class LoggedRun(Protocol):
    """A run that may have stored the heads of the log when it started."""

    @property
    def log_heads(self) -> tuple[str, ...] | None:
        """The heads; None if the run is from before the log."""
        ...


@dataclass(frozen=True)
class Registration:
    """Claims about one study, and the seeds over which they are to be decided."""

    digest: str
    """The hash of its entry of the log."""
    study: str
    claims: Mapping[str, Mapping[str, Any]]
    """What every claim says, by its key."""
    seeds: tuple[int, ...]
    design: Mapping[str, Any]

    @property
    def short_digest(self) -> str:
        """What to put into a paper, a commit or a public registry."""
        return self.digest[:SHORT]


def registrations(history: Log, study: str) -> list[Registration]:
    """Returns the registrations of a study's claims, earlier ones first."""
    found = []
    for entry in history.of_kind(REGISTRATION):
        content = entry.content
        if content.get("study") == study and isinstance(content.get("claims"), dict):
            seeds = tuple(seed for seed in content.get("seeds", ()) if isinstance(seed, int))
            found.append(Registration(entry.hash, study, content["claims"], seeds, content.get("design", FIXED)))
    return found


def log_registration(
    root: Path, study: str, claims: Sequence[Claim], seeds: Sequence[int], design: Mapping[str, Any] = FIXED
) -> Registration:
    """Logs claims that are new or were changed; returns the study's newest registration."""
    known = registrations(Log.read(root), study)
    registered = {name: content for one in known for name, content in one.claims.items()}
    fresh = {key(claim): claim.content for claim in claims if registered.get(key(claim)) != claim.content}
    if known and not fresh:
        return known[-1]
    # The seeds are part of the design: claims that come later are decided over the seeds of the first registration.
    chosen, how = (known[0].seeds, known[0].design) if known else (tuple(seeds), dict(design))
    content = {"study": study, "claims": fresh, "seeds": list(chosen), "design": how}
    entry = log.append(root, REGISTRATION, content)
    return Registration(entry.hash, study, fresh, chosen, how)


def family_size(known: Iterable[Registration]) -> int:
    """Returns how many claims were ever registered for a study: all of them share its level."""
    return len({name for one in known for name in one.claims})


def standing(claim: Claim, runs: Iterable[LoggedRun], known: Sequence[Registration], history: Log) -> str:
    """Returns how a claim stands to what was registered before its runs started.

    ``registered``; ``changed after runs existed``, and in what; ``post hoc``; or ``not logged, post hoc`` if a run does
    not say what was in the log when it started.
    """
    heads = [run.log_heads for run in runs]
    if any(one is None for one in heads) or not history.entries:
        return NOT_LOGGED
    came_before = [history.up_to(one or ()) for one in set(heads)]
    name = key(claim)
    before = [one for one in known if name in one.claims and all(one.digest in past for past in came_before)]
    if any(one.claims[name] == claim.content for one in before):
        return REGISTERED
    if before:
        names = changed_fields(before[0].claims[name], claim.content)
        return f"{CHANGED} ({', '.join(names)})" if names else CHANGED
    return POST_HOC
