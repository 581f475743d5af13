"""Registrations: claims frozen in the log before runs exist, and whether a run came after them.

A registration is an entry of the log. A claim is registered for a run if the registration is among the ancestors of
every sweep that planned the run, and of the log's heads that the run stored when it started. Clocks and copies of the
files do not matter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kymograph._claims.claim import Claim
from kymograph._claims.claim_files import OWN_STUDY, named_claims
from kymograph._claims.design import Design, Terms, completed
from kymograph._claims.grid import Grid, claims_on_grid
from kymograph._claims.tuning import CHOICE, check_tuning_seeds, choices_of
from kymograph._claims.verdict import INTERIM
from kymograph._errors import KymographError
from kymograph._io.writing import make_directory
from kymograph._runs.declaration import ArmSettings, differing
from kymograph._runs.directory import Directory
from kymograph._runs.history import ABANDONED, REINSTATED, REPLACED, SWEEP, History, check_content, code_free_key
from kymograph._runs.log import SHORT, Entry, Log
from kymograph._runs.spec import canonical_json
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tuned import tuning_study
from kymograph._statistics.p_values import smallest_p
from kymograph._streams import fixed_seeds
from kymograph._studies.loading import registered_study
from kymograph._studies.study import Study
from kymograph._wording import counted

if TYPE_CHECKING:
    from kymograph._claims.evidence import StudyEvidence

REGISTRATION = "registration"
"""The kind of a registration's log entry."""
REGISTERED, CHANGED, POST_HOC = "registered", "changed after runs existed", "post hoc"
NOT_LOGGED = f"not logged, {POST_HOC}"
"""The status of every claim where there is no log."""
LEAST_REGISTERED = 10
"""The smallest number of seeds in a registration: a pilot of three is an interim look, not a new design."""


@dataclass(frozen=True)
class Registration:
    """Claims about one study, and the seeds over which they are to be decided.

    >>> registration, = ky.register("fresh", "warmup.py", looks=(10, 15))
    >>> registration.study, list(registration.claims), len(registration.terms.seeds)
    ('warmup', ['warmup/own/sharpness: warmup < constant'], 15)
    """

    digest: str
    """The hash of its log entry."""
    study: str
    claims: Mapping[str, Mapping[str, Any]]
    """The content of every claim, by key."""
    terms: Terms

    @property
    def short_digest(self) -> str:
        """The short hash, to cite in a paper, a commit or a public registry."""
        return self.digest[:SHORT]


def key(claim: Claim) -> str:
    """Returns the name under which a claim is registered."""
    return f"{claim.study}/{claim.setup}/{claim.name}"


def statement(content: Mapping[str, Any]) -> str:
    """Returns what a claim tests as JSON, without its name, text and origin."""
    return canonical_json({name: value for name, value in content.items() if name not in ("name", "text", "origin")})


def version(claim: Claim) -> tuple[str, str]:
    """Returns what identifies one version of a claim: its key, and what it tests."""
    return key(claim), statement(claim.content)


# Reading the log


def registrations(log: Log, study: str) -> list[Registration]:
    """Returns the registrations of a study's claims, earlier ones first; raises if one cannot be read."""
    read = []
    for entry in log.of_kind(REGISTRATION):
        if entry.content.get("study") == study:
            try:
                read.append(_registration(entry))
            except ValueError as error:
                raise KymographError(f"the registration {entry.hash[:SHORT]} cannot be read: {error}") from None
    return read


def registrations_about(log: Log, study: str) -> list[Registration]:
    """Returns every registration that concerns a study: of claims about it, and of claims about every study."""
    return [*registrations(log, study), *registrations(log, OWN_STUDY)]


def _registration(entry: Entry) -> Registration:
    """Returns the registration of a log entry; raises ValueError if it cannot be read."""
    study, claims = entry.content.get("study"), entry.content.get("claims")
    if not isinstance(study, str):
        raise ValueError("it names no study")
    if not isinstance(claims, dict) or not all(isinstance(claim, dict) for claim in claims.values()):
        raise ValueError("its claims must be objects")
    return Registration(entry.hash, study, claims, Terms.from_json(entry.content))


def registered_contents(log: Log, study: str) -> dict[str, Mapping[str, Any]]:
    """Returns the content of each registered claim of a study, by key, as it was last registered."""
    return {name: content for entry in registrations(log, study) for name, content in entry.claims.items()}


def registered_claims(log: Log, study: str) -> dict[str, list[Claim]]:
    """Returns the registered versions of a study's claims, by key, the latest last; unreadable ones are left out."""
    claims: dict[str, list[Claim]] = {}
    for entry in registrations(log, study):
        for name, content in entry.claims.items():
            with contextlib.suppress(ValueError):
                claims.setdefault(name, []).append(Claim.of(content))
    return claims


def dropped_claims(claims: Iterable[Claim], log: Log, study: str) -> list[Claim]:
    """Returns the registered claims about a study, in their latest versions, that are not among ``claims``.

    A study whose code is not available makes no claims, so all of its registered ones are returned.
    """
    made = {key(claim) for claim in claims}
    return [versions[-1] for name, versions in registered_claims(log, study).items() if name not in made]


def family(registered: Iterable[Registration]) -> set[tuple[str, str]]:
    """Returns the `version` of every finding ever registered about a study; all of them share the level."""
    return {
        (name, statement(content))
        for entry in registered
        for name, content in entry.claims.items()
        if content.get("kind") is None
    }


def log_problems(log: Log) -> list[str]:
    """Returns one sentence per problem of a log: entries that were edited or truncated, or cannot be read.

    An entry added by hand can have a valid hash. Readers skip an entry whose content does not have the types of its
    kind; it is reported here, so that no entry is skipped silently.
    """
    problems = list(log.problems)
    for entry in log.entries.values():
        check = _CHECKS.get(entry.kind)
        if check is None:
            problems.append(f"the log entry {entry.hash[:SHORT]} is of a kind that this version does not know")
            continue
        try:
            check(entry)
        except ValueError as error:
            problems.append(f"the log entry {entry.hash[:SHORT]} is not a readable {entry.kind}: {error}")
    return problems


def _check_registration(entry: Entry) -> None:
    for content in _registration(entry).claims.values():
        Claim.of(content)


_CHECKS: Mapping[str, Callable[[Entry], object]] = {
    SWEEP: check_content,
    ABANDONED: check_content,
    REINSTATED: check_content,
    REPLACED: check_content,
    REGISTRATION: _check_registration,
    CHOICE: choices_of,
}
"""By kind of entry, what raises ValueError if an entry cannot be read."""


# Which registration counts


def binding(registered: Sequence[Registration], study: str, log: Log) -> Registration | None:
    """Returns the registration that fixes how a study's claims are decided: the first that came before all its sweeps.

    The sweeps include those that tune its arms. A registration added to the log afterwards, at any position, has no
    effect.
    """
    sweeps = [sweep.hash for sweep in _sweeps(log, study)]
    return next((entry for entry in registered if all(log.precedes(entry.digest, [sweep]) for sweep in sweeps)), None)


def _sweeps(log: Log, study: str) -> list[Entry]:
    names = (study, tuning_study(study))
    return [entry for entry in log.of_kind(SWEEP) if entry.content.get("study") in names]


def binding_terms(log: Log, study: str) -> Terms | None:
    """Returns the terms of the registration that binds the study's claims; None if there is none."""
    first = binding(registrations_about(log, study), study, log)
    return None if first is None else first.terms


def conflicts(registered: Sequence[Registration], study: str, log: Log) -> list[str]:
    """Returns a sentence for each registration that came before all sweeps and contradicts the binding one."""
    first = binding(registered, study, log)
    if first is None:
        return []
    others = [entry for entry in registered if entry.terms.to_json() != first.terms.to_json()]
    rivals = [entry for entry in others if binding([entry], study, log) is not None]
    return [
        f"the registrations {first.short_digest} and {rival.short_digest} state different designs" for rival in rivals
    ]


# The registration of a claim


def registration_status(
    claim: Claim, evidence: StudyEvidence, registered: Sequence[Registration], history: History
) -> str:
    """Returns in words whether a claim is registered or post hoc, and which look at its seeds this is."""
    selections = [evidence.selected(side) for side in claim.every_side]
    of_sides = [run for selected in selections for run in selected.runs if isinstance(run, StoredRun)]
    runs = list({run.id: run for run in of_sides}.values())
    tuned = [evidence.tuned[side.arm] for side in claim.every_side if side.arm in evidence.tuned]
    runs += {run.id: run for arm in tuned for run in arm.runs}.values()  # tuning runs must come after the claim, too
    words = _status_when_planned(claim, runs, registered, history)
    departure = next((selected.departure for selected in selections if selected.departure), "")
    if departure and not words.startswith((POST_HOC, NOT_LOGGED)):
        words = f"{POST_HOC}: other settings than registered ({departure})"
    lost = [run for selected in selections for run in selected.abandoned]
    # Abandoning runs, looking and taking them back is a choice made after the results, whichever way it ends.
    seen = seen_before_reinstated(runs, history)
    again = [run for run in runs if run.id in history.replaced]
    chosen = []
    if lost:
        count = counted(len({run.id for run in lost}), "planned run was", "planned runs were")
        chosen.append(f"{count} abandoned ({history.abandoned[lost[0].id]})")
    if seen:
        count = counted(len(seen), "planned run was", "planned runs were")
        chosen.append(f"{count} {history.reinstated[seen[0].id]} when results may have been seen")
    if again:
        chosen.append(f"{counted(len(again), 'run was', 'runs were')} recorded again")
    if chosen:
        words = f"{POST_HOC}: {'; '.join(chosen)}"
    # A seed counts once every arm of the claim has it.
    return words + _look(evidence, set.intersection(*({run.seed for run in selected.runs} for selected in selections)))


def seen_before_reinstated(runs: Iterable[StoredRun], history: History) -> list[StoredRun]:
    """Returns the runs that were abandoned and taken back when their results may have been seen."""
    back = [run for run in runs if run.id in history.reinstated]
    return [run for run in back if history.seen_before_reinstated(run.id, run.log_heads)]


def _status_when_planned(
    claim: Claim, runs: Sequence[StoredRun], registered: Sequence[Registration], history: History
) -> str:
    """Returns a claim's registration status at the time when its runs were first planned.

    ``registered``; ``changed after runs existed``, with the changed fields; ``post hoc``; or ``not logged, post hoc``
    if the runs have no log. A run that is computed again, by any code, counts as planned when it was first planned.
    """
    if not history.log.entries:
        return NOT_LOGGED
    starts = {run.log_heads or () for run in runs} | {
        (sweep,) for run in runs for sweep in history.sweeps.get(code_free_key(run.spec), ())
    }
    name, now = key(claim), _without_origin(claim.content)
    before = [
        _without_origin(entry.claims[name])
        for entry in registered
        if name in entry.claims and all(history.log.precedes(entry.digest, heads) for heads in starts)
    ]
    if now in before:
        return REGISTERED
    if not before:
        return POST_HOC
    first = before[0]
    changed = sorted(field for field in {*first, *now} if first.get(field) != now.get(field))
    return f"{CHANGED} ({', '.join(changed)})" if changed else CHANGED


def _without_origin(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a claim without its origin, which may be a file name."""
    return {name: value for name, value in content.items() if name != "origin"}


def _look(evidence: StudyEvidence, seeds: set[int]) -> str:
    """Returns which look at the registered seeds this is, in words; empty if it is the only one and complete."""
    if evidence.terms is None:
        return ""
    registered, design = evidence.terms.seeds, evidence.terms.design
    looks = completed(seeds, registered, design)
    if not looks:
        return f", {INTERIM}: {len(seeds.intersection(registered))} of {len(registered)} registered seeds"
    if not design.sequential:
        return ""
    return f", look {len(looks)} of {len(design.sizes)} ({looks[-1].seeds} of {len(registered)} seeds)"


def registration_of(claim: Claim, registered: Sequence[Registration]) -> dict[str, Any]:
    """Returns the digest and the terms of the registration that states a claim as it is; empty if there is none."""
    name, content = key(claim), claim.content
    matching = next((entry for entry in registered if entry.claims.get(name) == content), None)
    return {} if matching is None else {"digest": matching.digest, **matching.terms.to_json()}


def runs_before(history: History, registration: Registration) -> int:
    """Returns how many runs of its study were planned before a registration; its claims are post hoc for these."""
    sweeps = {sweep for sweeps in history.sweeps.values() for sweep in sweeps}
    earlier = {sweep for sweep in sweeps if not history.log.precedes(registration.digest, [sweep])}
    return sum(
        registration.study in (spec.study, OWN_STUDY)
        and not earlier.isdisjoint(history.sweeps.get(code_free_key(spec), ()))
        for spec in history.planned.values()
    )


# A sweep and what was registered before it


def unregistered_settings(log: Log, study: Study[Any], arms: Collection[str], fields: Mapping[str, Any]) -> str | None:
    """Returns a note if the study's claims are registered for other settings than these.

    Settings that a claim itself asks for count as registered.
    """
    terms = binding_terms(log, study.name)
    if terms is None:
        return None
    asked_for = {
        (name, repr(value))
        for claim in claims_on_grid(study.claims(), terms.grid)
        for side in claim.every_side
        for name, value in side.where.items()
    }
    registered, now = terms.settings_given(study.arm_settings({})), study.arm_settings(fields)
    departures: dict[str, str] = {}
    for arm in arms:
        expected, settings = registered.of(arm), now.of(arm)
        for name in differing(settings, expected):
            if (name, repr(settings.get(name))) not in asked_for:
                departures[name] = f"{name} {settings.get(name)} (registered: {expected.get(name, 'its default')})"
    if not departures:
        return None
    return (
        f"the claims of {study.name} are not registered for {', '.join(departures.values())}; such runs are judged "
        "only with --where, as post hoc (in another directory they would be registered)"
    )


def changed_claims(directory: Directory, study: Study[Any], grid: Grid) -> str | None:
    """Returns, in words, which claims in a study's code were changed or added since registration; None if none were."""
    contents = registered_contents(directory.log, study.name)
    registered = {(name, statement(content)) for name, content in contents.items()}
    new = [claim.name for claim in claims_on_grid(study.claims(), grid) if version(claim) not in registered]
    if not registered or not new:
        return None
    others = f" and {counted(len(new) - 1, 'other claim')}" if len(new) > 1 else ""
    return (
        f"{new[0]!r}{others} {'differ' if others else 'differs'} from the claims that {study.name} registered in "
        f"{directory.root}, which remain binding; `kymograph judge` with --study and the study's file judges both "
        "versions, the new one as post hoc; to register it, use another directory"
    )


# Registering


def registered_seeds(seeds: Sequence[int], least: int = LEAST_REGISTERED) -> tuple[int, ...]:
    """Returns ``seeds``, topped up from the fixed list to at least ``least``.

    >>> registered_seeds([7, 42])
    (7, 42, 123, 456, 55619, 40238, 55184, 50541, 63633, 74992)
    """
    more = (seed for seed in fixed_seeds(least + len(seeds)) if seed not in seeds)
    return (*seeds, *islice(more, max(least - len(seeds), 0)))


def register_study(
    log: Log, study: Study[Any], seeds: Sequence[int], fields: Mapping[str, Any], grid: Grid | None = None
) -> None:
    """Registers the study's claims, at every point of a grid, before any of its runs is computed."""
    claims = claims_on_grid(study.claims(), grid or {})
    # Claims changed after the first sweep are judged and marked; registering them now would prove nothing.
    late = _sweeps(log, study.name) and registrations(log, study.name)
    if claims and not late:
        chosen, rules = registered_seeds(seeds), study.tuning()
        check_tuning_seeds(study.name, rules, chosen)
        terms = Terms(chosen, Design((len(chosen),)), fields, study.arm_settings(fields), dict(grid or {}), rules)
        _register(log, study.name, claims, terms)


def register(
    directory: Directory | str | Path,
    claims: Iterable[Claim] | str | Path,
    seeds: Sequence[int] = (),
    *,
    looks: Sequence[int] = (),
    settings: Mapping[str, Any] | None = None,
    studies: Iterable[Study[Any]] = (),
) -> list[Registration]:
    """Registers claims in a directory of runs, ideally before it has any; returns one registration per study.

    >>> claim = ky.Claim.compare("loss", "adam", "<", "sgd", margin=1.1)
    >>> registration, = ky.register("planned", [dataclasses.replace(claim, study="optimizers")])
    >>> registration.terms.seeds[:3], len(registration.short_digest)
    ((42, 123, 456), 16)

    Args:
        directory: the directory.
        claims: the claims; or a TOML or Python file of them, or the name of a study, whose claims they are.
        seeds: those over which the claims will be decided; fewer than ten are topped up from the fixed list.
        looks: numbers of seeds at which a sequential design decides, e.g. ``(10, 15, 20)``; default: once, over all.
        settings: settings of the runs that differ from the study's defaults, e.g. ``{"lr": 0.03}``.
        studies: user-defined studies, whose code gives the settings of their arms.
    """
    directory = Directory.of(directory)
    history, fields = directory.log, dict(settings or {})
    named, its_study = named_claims(str(claims)) if isinstance(claims, str | Path) else (list(claims), [])
    if len(set(seeds)) < len(seeds):
        raise KymographError("a seed is listed twice; each seed is one replication")
    make_directory(directory.root)
    if looks and looks[-1] < LEAST_REGISTERED:
        raise KymographError(f"the last look must have at least {LEAST_REGISTERED} seeds, not {looks[-1]}")
    if looks and len(seeds) > looks[-1]:
        raise KymographError(f"{len(seeds)} seeds are more than the {looks[-1]} of the last look")
    chosen = registered_seeds(seeds, looks[-1] if looks else LEAST_REGISTERED)
    design = Design(tuple(looks) or (len(chosen),))
    code = {study.name: study for study in (*its_study, *studies)}
    by_study: dict[str, list[Claim]] = {}
    for claim in named:
        by_study.setdefault(claim.study, []).append(claim)
    terms_of = {}
    for name, claims_of_study in by_study.items():  # all are checked before the first is registered
        study = code.get(name) or registered_study(name)
        rules = {} if study is None else study.tuning()
        check_tuning_seeds(name, rules, chosen)
        settings_of_arms = ArmSettings() if study is None else study.arm_settings(fields)
        terms = terms_of[name] = Terms(chosen, design, fields, settings_of_arms, tuned=rules)
        before = _registered_terms(history, name) or terms
        for what, differs in (
            ("seeds", bool(seeds) and terms.seeds != before.seeds),
            ("looks", bool(looks) and terms.design != before.design),
            ("settings", settings is not None and dict(terms.fields) != dict(before.fields)),
        ):
            if differs:
                raise KymographError(
                    f"claims about {name} are registered in {directory.root} with other {what}, which cannot be "
                    "changed; register in another directory"
                )
        _check_family(name, claims_of_study, terms, history)
    return [_register(history, name, claims_of_study, terms_of[name]) for name, claims_of_study in by_study.items()]


def _register(log: Log, study: str, claims: Sequence[Claim], terms: Terms) -> Registration:
    """Logs claims that are new or changed, on the terms of an earlier registration if there is one.

    Returns the study's newest registration.
    """
    terms = _registered_terms(log, study) or terms
    _check_family(study, claims, terms, log)
    earlier, contents = registrations(log, study), registered_contents(log, study)
    fresh = {key(claim): claim.content for claim in claims if contents.get(key(claim)) != claim.content}
    if earlier and not fresh:
        return earlier[-1]
    entry = log.append(REGISTRATION, {"study": study, "claims": fresh, **terms.to_json()})
    return Registration(entry.hash, study, fresh, terms)


def _registered_terms(log: Log, study: str) -> Terms | None:
    """Returns the terms of the binding registration or, if all came after runs, of the first; None if there is none."""
    registered = registrations(log, study)
    return binding_terms(log, study) or (registered[0].terms if registered else None)


def _check_family(study: str, claims: Sequence[Claim], terms: Terms, log: Log) -> None:
    """Raises if the registered seeds cannot decide all the claims of a study at once."""
    findings = {version(claim) for claim in claims if claim.kind is None}
    count = len(family(registrations(log, study)) | findings)
    strictest = min(claim.alpha for claim in claims)
    for look in terms.design.looks if terms.design.sequential else ():
        smallest, level = smallest_p(look.seeds), strictest * look.share
        if smallest * count > level:
            raise KymographError(
                f"the look at {look.seeds} seeds can decide nothing: the exact test reaches no p below {smallest:.2g}, "
                f"and the look may spend {level:.2g} on {counted(count, 'claim')}; leave it out"
            )
    smallest = terms.design.smallest_p
    if smallest * count > strictest:
        raise KymographError(
            f"{terms.design} cannot decide {all_claims(count, study)} together: the exact test reaches no p below "
            f"{smallest:.2g}, and {strictest:g} / {count} is needed; register fewer claims or more seeds"
        )


def all_claims(count: int, study: str) -> str:
    """Returns "the 3 claims of STUDY", or "the claim"."""
    return f"the claim of {study}" if count == 1 else f"the {count:,} claims of {study}"
