"""Registrations in the log: which claims, how they are to be decided, and whether a run came after them.

A registration is an entry of the log. A claim is registered for a run if the registration is among the ancestors of
every sweep that planned the run, and of the log's heads that the run stored when it started. Clocks and copies of the
files do not matter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.plan import Plan
from kymograph.claims.registration import CHANGED, POST_HOC, REGISTERED, changed_fields, key
from kymograph.errors import KymographError
from kymograph.runs import log
from kymograph.runs.history import SWEEP, History, code_free_key
from kymograph.runs.log import SHORT, Entry, Log
from kymograph.runs.spec import RunSpec, canonical_json
from kymograph.runs.tuned import tuning_study

REGISTRATION = "registration"
NOT_LOGGED = f"not logged, {POST_HOC}"


class LoggedRun(Protocol):
    """A run that may have stored the heads of the log when it started."""

    @property
    def log_heads(self) -> tuple[str, ...] | None:
        """The heads; None if the run predates the log."""
        ...

    @property
    def spec(self) -> RunSpec:
        """What was run."""
        ...


@dataclass(frozen=True)
class Registration:
    """Claims about one study, and the seeds over which they are to be decided."""

    digest: str
    """The hash of its log entry."""
    study: str
    claims: Mapping[str, Mapping[str, Any]]
    """The content of every claim, by key."""
    plan: Plan

    @property
    def short_digest(self) -> str:
        """The short hash, to cite in a paper, a commit or a public registry."""
        return self.digest[:SHORT]


def registrations(history: Log, study: str) -> list[Registration]:
    """Returns the registrations of a study's claims, earlier ones first; raises if one cannot be read."""
    found = []
    for entry in history.of_kind(REGISTRATION):
        if entry.content.get("study") == study:
            try:
                found.append(_registration(entry))
            except ValueError as error:
                raise KymographError(f"the registration {entry.hash[:SHORT]} cannot be read: {error}") from None
    return found


def _registration(entry: Entry) -> Registration:
    """Returns the registration of a log entry; raises ValueError if it cannot be read."""
    study, claims = entry.content.get("study"), entry.content.get("claims")
    if not isinstance(study, str):
        raise ValueError("it names no study")
    if not isinstance(claims, dict) or not all(isinstance(claim, dict) for claim in claims.values()):
        raise ValueError("its claims must be objects")
    return Registration(entry.hash, study, claims, Plan.from_json(entry.content))


def check_registration(entry: Entry) -> None:
    """Raises ValueError if an entry, or one of its claims, cannot be read."""
    for claim in _registration(entry).claims.values():
        Claim.of(claim)


def registered_contents(history: Log, root: Path | None, study: str) -> dict[str, Mapping[str, Any]]:
    """Returns the content of each registered claim of a study, by key, as it was last registered.

    For a directory that predates the log, it comes from the file stored next to the runs.
    """
    if history.entries or root is None:
        return {name: content for one in registrations(history, study) for name, content in one.claims.items()}
    contents = {name: entry.get("claim") or {} for name, entry in registration.read(root).items()}
    return {name: content for name, content in contents.items() if content.get("study") == study}


def log_registration(root: Path, study: str, claims: Sequence[Claim], plan: Plan) -> Registration:
    """Logs claims that are new or changed; returns the study's newest registration."""
    known = registrations(Log.read(root), study)
    registered = {name: content for one in known for name, content in one.claims.items()}
    fresh = {key(claim): claim.content for claim in claims if registered.get(key(claim)) != claim.content}
    if known and not fresh:
        return known[-1]
    entry = log.append(root, REGISTRATION, {"study": study, "claims": fresh, **plan.to_json()})
    return Registration(entry.hash, study, fresh, plan)


def binding(known: Sequence[Registration], study: str, history: Log) -> Registration | None:
    """Returns the registration that fixes how a study's claims are decided: the first that came before all its sweeps.

    The sweeps include those that tune its arms. A registration added to the log afterwards, at any position, has no
    effect.
    """
    names = (study, tuning_study(study))
    sweeps = [entry.hash for entry in history.of_kind(SWEEP) if entry.content.get("study") in names]
    pasts = [history.up_to([sweep]) for sweep in sweeps]
    return next((one for one in known if all(one.digest in past for past in pasts)), None)


def conflicts(known: Sequence[Registration], study: str, history: Log) -> list[str]:
    """Returns a sentence for each registration that came before all sweeps and contradicts the binding one."""
    first = binding(known, study, history)
    if first is None:
        return []
    others = [one for one in known if one.plan.to_json() != first.plan.to_json()]
    rivals = [one for one in others if binding([one], study, history) is not None]
    return [f"the registrations {first.short_digest} and {one.short_digest} state different designs" for one in rivals]


def dropped_claims(claims: Iterable[Claim], registered: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    """Returns the registered claims that are not among ``claims``; ``registered`` holds their contents, by key.

    A study whose code is not available makes no claims, so all of its registered ones are returned.
    """
    made = {key(claim) for claim in claims}
    found = []
    for name, content in registered.items():
        if name not in made:
            with contextlib.suppress(ValueError):
                found.append(Claim.of(content))
    return found


def statement(content: Mapping[str, Any]) -> str:
    """Returns what a claim tests as JSON, without its name, text and origin."""
    return canonical_json({name: value for name, value in content.items() if name not in ("name", "text", "origin")})


def family(known: Iterable[Registration]) -> set[tuple[str, str]]:
    """Returns every finding ever registered about a study, each version once; all of them share the level."""
    return {
        (name, statement(content))
        for one in known
        for name, content in one.claims.items()
        if content.get("kind") is None
    }


def registration_status(
    claim: Claim, runs: Sequence[LoggedRun], known: Sequence[Registration], history: History
) -> str:
    """Returns a claim's registration status at the time when its runs were first planned.

    ``registered``; ``changed after runs existed``, with the changed fields; ``post hoc``; or ``not logged, post hoc``
    if a run did not store the log's heads when it started. A run that is computed again, by any code, counts as planned
    when it was first planned.
    """
    if any(run.log_heads is None for run in runs) or not history.log.entries:
        return NOT_LOGGED
    starts = {run.log_heads or () for run in runs} | {
        (sweep,) for run in runs for sweep in history.sweeps.get(code_free_key(run.spec), ())
    }
    pasts = [history.log.up_to(heads) for heads in starts]
    name = key(claim)
    before = [one for one in known if name in one.claims and all(one.digest in past for past in pasts)]
    now = _without_origin(claim.content)
    if any(_without_origin(one.claims[name]) == now for one in before):
        return REGISTERED
    if before:
        names = changed_fields(_without_origin(before[0].claims[name]), now)
        return f"{CHANGED} ({', '.join(names)})" if names else CHANGED
    return POST_HOC


def _without_origin(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a claim without its origin, which may be a file name."""
    return {name: value for name, value in content.items() if name != "origin"}
