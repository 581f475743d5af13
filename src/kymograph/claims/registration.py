"""Registrations: claims frozen in the log before runs exist, and whether a run came after them.

[claims.registration] The registration status of a claim, and the registrations of directories that predate the log.

Those directories have a ``claims.json`` with every claim's content and hash. Where there is a log, it holds the claims,
and the file is neither read nor written.

[claims.log_problems] Problems of a log: entries that were edited or truncated, and entries whose content cannot be read.

An entry added by hand can have a valid hash. Readers skip an entry whose content does not have the types of its kind;
it is reported here, so that no entry is skipped silently.

[claims.logged] Registrations in the log: which claims, how they are to be decided, and whether a run came after them.

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
from typing import Any, Protocol

from kymograph.claims.claim import Claim
from kymograph.claims.decision import can_decide
from kymograph.claims.design import Design, Terms
from kymograph.claims.evidence import differing, quantities
from kymograph.claims.files import OWN_STUDY
from kymograph.claims.grid import Grid, claims_on_grid
from kymograph.claims.tuning import CHOICE, check_tuning_seeds, choices_of
from kymograph.errors import KymographError, did_you_mean
from kymograph.io.writing import make_directory, read_json
from kymograph.runs import log
from kymograph.runs.declaration import ArmSettings
from kymograph.runs.history import ABANDONED, REPLACED, SWEEP, History, check_content, code_free_key
from kymograph.runs.log import SHORT, Entry, Log
from kymograph.runs.spec import RunSpec, canonical_json
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import tuning_study
from kymograph.statistics.p_values import LEAST_SEEDS, smallest_p
from kymograph.streams import fixed_seeds
from kymograph.studies.loading import registered_study
from kymograph.studies.study import Study
from kymograph.wording import counted

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


def log_problems(history: Log) -> list[str]:
    """Returns one sentence per problem of a log."""
    found = list(history.problems)
    for entry in history.entries.values():
        check = _CHECKS.get(entry.kind)
        if check is None:
            found.append(f"the log entry {entry.hash[:SHORT]} is of a kind that this version does not know")
            continue
        try:
            check(entry)
        except ValueError as error:
            found.append(f"the log entry {entry.hash[:SHORT]} is not a readable {entry.kind}: {error}")
    return found


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
    terms: Terms

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
    return Registration(entry.hash, study, claims, Terms.from_json(entry.content))


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
    contents = {name: entry.get("claim") or {} for name, entry in read(root).items()}
    return {name: content for name, content in contents.items() if content.get("study") == study}


def log_registration(root: Path, study: str, claims: Sequence[Claim], terms: Terms) -> Registration:
    """Logs claims that are new or changed; returns the study's newest registration."""
    known = registrations(Log.read(root), study)
    registered = {name: content for one in known for name, content in one.claims.items()}
    fresh = {key(claim): claim.content for claim in claims if registered.get(key(claim)) != claim.content}
    if known and not fresh:
        return known[-1]
    entry = log.append(root, REGISTRATION, {"study": study, "claims": fresh, **terms.to_json()})
    return Registration(entry.hash, study, fresh, terms)


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
    others = [one for one in known if one.terms.to_json() != first.terms.to_json()]
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


LEAST_REGISTERED = 10
"""The smallest number of seeds in a registration: a pilot of three is an interim look, not a new design."""


def registered_seeds(seeds: Sequence[int], least: int = LEAST_REGISTERED) -> tuple[int, ...]:
    """Returns ``seeds``, topped up from the fixed list to at least ``least``.

    >>> registered_seeds([7, 42])
    (7, 42, 123, 456, 55619, 40238, 55184, 50541, 63633, 74992)
    """
    more = (seed for seed in fixed_seeds(least + len(seeds)) if seed not in seeds)
    return (*seeds, *islice(more, max(least - len(seeds), 0)))


def register_study(
    root: Path, study: Study, seeds: Sequence[int], fields: Mapping[str, Any], grid: Grid | None = None
) -> None:
    """Registers the study's claims, at every point of a grid, before any of its runs is computed."""
    claims = claims_on_grid(study.claims(), grid or {})
    # Claims changed after the first sweep are judged and marked; registering them now would prove nothing.
    history = Log.read(root)
    names = (study.name, tuning_study(study.name))
    begun = any(entry.content.get("study") in names for entry in history.of_kind(SWEEP))
    late = begun and bool(registrations(history, study.name))
    if claims and not late:
        chosen, rules = registered_seeds(seeds), study.tuning()
        check_tuning_seeds(study.name, rules, chosen)
        _register(
            root,
            study.name,
            claims,
            Terms(chosen, Design((len(chosen),)), fields, study.arm_settings(fields), dict(grid or {}), rules),
        )


def register_claims(
    root: str | Path,
    claims: Sequence[Claim],
    seeds: Sequence[int] = (),
    *,
    looks: Sequence[int] = (),
    settings: Mapping[str, Any] | None = None,
    studies: Iterable[Study] = (),
) -> list[Registration]:
    """Registers claims in a directory of runs, ideally before it has any; returns one registration per study.

    Args:
        root: the directory.
        claims: the claims.
        seeds: those over which the claims will be decided; fewer than ten are topped up from the fixed list.
        looks: numbers of seeds at which a sequential design decides, e.g. ``(10, 15, 20)``; default: once, over all.
        settings: settings of the runs that differ from the study's defaults, e.g. ``{"lr": 0.03}``.
        studies: user-defined studies, whose code gives the settings of their arms.
    """
    directory, fields = Path(root), dict(settings or {})
    if len(set(seeds)) < len(seeds):
        raise KymographError("a seed is listed twice; each seed is one replication")
    make_directory(directory)
    if looks and looks[-1] < LEAST_REGISTERED:
        raise KymographError(f"the last look must have at least {LEAST_REGISTERED} seeds, not {looks[-1]}")
    if looks and len(seeds) > looks[-1]:
        raise KymographError(f"{len(seeds)} seeds are more than the {looks[-1]} of the last look")
    chosen = registered_seeds(seeds, looks[-1] if looks else LEAST_REGISTERED)
    design = Design(tuple(looks) or (len(chosen),))
    named = {study.name: study for study in studies}
    by_study: dict[str, list[Claim]] = {}
    for claim in claims:
        by_study.setdefault(claim.study, []).append(claim)
    plans = {}
    for name, own_claims in by_study.items():
        study = named.get(name) or registered_study(name)
        rules = {} if study is None else study.tuning()
        check_tuning_seeds(name, rules, chosen)
        settings_of_arms = ArmSettings() if study is None else study.arm_settings(fields)
        plans[name] = Terms(chosen, design, fields, settings_of_arms, tuned=rules)
        _check_unchanged(directory, name, plans[name], bool(seeds), bool(looks), settings is not None)
        _check_family(name, own_claims, plans[name], Log.read(directory))
    return [_register(directory, name, own_claims, plans[name]) for name, own_claims in by_study.items()]


def binding_terms(history: Log, study: str) -> Terms | None:
    """Returns the terms of the registration that binds the study's claims; None if there is none."""
    one = binding([*registrations(history, study), *registrations(history, OWN_STUDY)], study, history)
    return None if one is None else one.terms


def registered_terms(history: Log, study: str) -> Terms | None:
    """Returns the terms of the binding registration or, if all came after runs, of the first; None if there is none."""
    known = registrations(history, study)
    return binding_terms(history, study) or (known[0].terms if known else None)


def runs_before(root: str | Path, one: Registration) -> int:
    """Returns how many runs of its study were planned before a registration; its claims are post hoc for these."""
    history = History(Log.read(Path(root)))
    late = {sweep for sweeps in history.sweeps.values() for sweep in sweeps}
    late = {sweep for sweep in late if one.digest not in history.log.up_to([sweep])}
    return sum(
        one.study in (spec.study, OWN_STUDY) and not late.isdisjoint(history.sweeps.get(code_free_key(spec), ()))
        for spec in history.planned.values()
    )


def unregistered_settings(root: Path, study: Study, arms: Collection[str], fields: Mapping[str, Any]) -> str:
    """Returns, in words, the settings of a sweep that differ from those its study's claims are registered for.

    Settings that a claim itself asks for count as registered.
    """
    terms = binding_terms(Log.read(root), study.name)
    if terms is None:
        return ""
    asked_for = {
        (name, repr(value))
        for claim in claims_on_grid(study.claims(), terms.grid)
        for one in quantities(claim)
        for name, value in one.where.items()
    }
    registered, now = terms.settings_given(study.arm_settings({})), study.arm_settings(fields)
    found: dict[str, str] = {}
    for arm in arms:
        expected, settings = registered.of(arm), now.of(arm)
        for name in differing(settings, expected):
            if (name, repr(settings.get(name))) not in asked_for:
                found[name] = f"{name} {settings.get(name)} (registered: {expected.get(name, 'its default')})"
    return ", ".join(found.values())


def _register(root: Path, study: str, claims: Sequence[Claim], terms: Terms) -> Registration:
    history = Log.read(root)
    chosen = registered_terms(history, study) or terms
    _check_family(study, claims, chosen, history)
    return log_registration(root, study, claims, chosen)


def _check_unchanged(root: Path, study: str, terms: Terms, seeds: bool, looks: bool, settings: bool) -> None:
    """Raises if the stated seeds, looks or settings differ from an earlier registration."""
    before = registered_terms(Log.read(root), study)
    if before is None:
        return
    stated = [
        ("seeds", seeds and terms.seeds != before.seeds),
        ("looks", looks and terms.design != before.design),
        ("settings", settings and dict(terms.fields) != dict(before.fields)),
    ]
    for what, differs in stated:
        if differs:
            raise KymographError(
                f"claims about {study} are registered in {root} with other {what}, which cannot be changed; "
                "register in another directory"
            )


def _check_family(study: str, claims: Sequence[Claim], terms: Terms, history: Log) -> None:
    """Raises if the registered seeds cannot decide all the claims of a study at once."""
    known = family(registrations(history, study))
    findings = {(key(claim), statement(claim.content)) for claim in claims if claim.kind is None}
    count = len(known | findings)
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
    """Returns "the claim of STUDY" or "the N claims of STUDY"."""
    return f"the claim of {study}" if count == 1 else f"the {count:,} claims of {study}"


def planning_note(study: Study, arms: Collection[str], seeds: int, grid: Grid | None = None) -> str | None:
    """Returns why this many seeds cannot decide the study's claims about these arms; None if they can."""
    claims = claims_on_grid(study.claims(), grid or {})
    ready = [claim for claim in claims if {quantity.arm for quantity in quantities(claim)} <= set(arms)]
    if not ready:
        return None
    if seeds < LEAST_SEEDS:
        few = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
        return f"{few} too few for a verdict: claims need at least {LEAST_SEEDS}"
    families = [claim.family for claim in ready if claim.kind is None]
    largest = max(families, key=families.count, default="")
    if largest and not can_decide(seeds, families.count(largest), ready[0].alpha):
        return (
            f"{seeds} seeds cannot decide {all_claims(families.count(largest), largest)}: "
            f"the exact test reaches no p below {smallest_p(seeds):.2g}"
        )
    return None


def changed_claims(root: Path, study: Study, grid: Grid | None = None) -> str | None:
    """Returns, in words, which claims in a study's code were changed or added since registration; None if none were."""
    known = registrations(Log.read(root), study.name)
    registered = {name: statement(content) for one in known for name, content in one.claims.items()}
    if not registered:
        return None
    new = [
        claim.name
        for claim in claims_on_grid(study.claims(), grid or {})
        if registered.get(key(claim)) != statement(claim.content)
    ]
    if not new:
        return None
    named = f"{new[0]!r}" + (f" and {counted(len(new) - 1, 'other claim')}" if len(new) > 1 else "")
    return (
        f"{named} {'are' if len(new) > 1 else 'is'} not what {study.name} has registered in {root}, which stays "
        "binding: `kymograph judge` with --study and the study's file judges both versions, the new one as post hoc; "
        "use another --out to register it"
    )


def numbers_that_no_run_has(claims: Iterable[Claim], runs: Collection[StoredRun]) -> list[str]:
    """Returns a sentence for every number that a claim is about but no run of its arm has."""
    found: dict[str, str] = {}
    for claim in claims:
        for quantity in quantities(claim):
            name, arm_runs = quantity.measure.name, [run for run in runs if run.arm == quantity.arm]
            stored = [run.series if quantity.measure.reduce is not None else run.summary for run in arm_runs]
            if not stored or any(name in one for one in stored):
                continue
            what = "logged the series" if quantity.measure.reduce is not None else "returned"
            others = sorted({other for one in stored for other in one})
            found.setdefault(
                name,
                f"no run of {quantity.arm} {what} {name!r}, which the claim {claim.name!r} is about"
                + did_you_mean(name, others),
            )
    return list(found.values())


_CHECKS: Mapping[str, Callable[[Entry], object]] = {
    SWEEP: check_content,
    ABANDONED: check_content,
    REPLACED: check_content,
    REGISTRATION: check_registration,
    CHOICE: choices_of,
}
