"""Judging a directory of runs: every study's registered claims, a user's own, or runs from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims import logged, registration
from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.claims.files import OWN_STUDY, read_claims
from kymograph.claims.judge import decide_claims
from kymograph.claims.logged import Registration, registrations
from kymograph.claims.pairing import Invalid, World, asked, quantities
from kymograph.claims.verdict import Verdict, Verdicts
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.declaration import Declaration
from kymograph.runs.formats.csv_arms import ImportedRun, read_csv_arm
from kymograph.runs.history import abandoned_runs, declaration_digest, logged_declarations, logged_runs
from kymograph.runs.log import Log
from kymograph.runs.plan_file import read_plan
from kymograph.runs.spec import RunSpec, slug
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.runs.superseded import code_text, current_code
from kymograph.studies.base import Study
from kymograph.studies.loading import declaration_of, registered_study


def judge(
    runs: Archive | Store | str | Path,
    claims: Iterable[Claim] | str | Path | None = None,
    where: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    studies: Iterable[Study] = (),
) -> Verdicts:
    """Judges the claims of every study that has runs in a store or directory; needs no torch.

    Args:
        runs: a store, or the directory of the runs. A directory is judged whole: what was planned and is missing, or
            was changed since it was written, makes a claim INVALID. A store is judged as it was chosen, and a verdict
            names the planned seeds that it lacks.
        claims: claims of your own, or a TOML or Python file of them; default: those of the studies.
        where: only runs with these settings, e.g. ``{"epochs": 60}``; a study without such a setting is judged whole.
        only: only runs with these ids.
        studies: user-defined studies whose code may speak for their stored runs; without it the claims that were
            registered with the runs are judged.
    """
    evidence = _evidence(runs)
    if not (evidence.finished or evidence.planned or evidence.invalid):
        root = evidence.root
        raise KymographError(f"{root} holds no run; make some with `kymograph run STUDY --out {root}`")
    evidence = _chosen(evidence, dict(where or {}), only)
    own = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    registered = registration.read(evidence.root) if evidence.root is not None else {}
    shared = registrations(evidence.log, OWN_STUDY)
    named = {study.name: study for study in studies}
    verdicts: list[Verdict] = []
    not_asked: list[str] = []
    for declaration in _in_order(evidence):
        name = declaration.name
        study = named.get(name) or registered_study(name)
        known = [*registrations(evidence.log, name), *shared]
        world = _world(declaration, evidence, known, registered)
        mine = [] if study is None else list(study.claims())
        old = registration.abandoned(name, mine, registered)
        if own is not None:
            mine, old = [claim for claim in own if claim.study in (name, OWN_STUDY)], []
        ready = [claim for claim in (*mine, *old) if asked(claim, world)]
        judged_keys = {registration.key(claim) for claim in (*mine, *old)}
        unjudged = {claim_key for one in known for claim_key in one.claims} - judged_keys
        world = replace(world, unjudged_claims=len(unjudged), code_changed=_code_changed(named.get(name), declaration))
        not_asked += [claim.name for claim in (*mine, *old) if claim not in ready]
        forgotten = {registration.key(claim) for claim in old} if study is not None else set()

        def standing(
            claim: Claim, forgotten: set[str] = forgotten, world: World = world, known: list[Registration] = known
        ) -> str:
            words = _standing(claim, world, known, evidence)
            return f"{words}, and no longer claimed" if registration.key(claim) in forgotten else words

        verdicts += [_with_registration(verdict, known) for verdict in decide_claims(ready, world, standing)]
    facts: dict[str, Any] = {"not_asked": not_asked}
    if own is not None:
        judged = {verdict.claim.name for verdict in verdicts}
        facts = {"own_not_asked": [claim.name for claim in own if claim.name not in judged]}
        if not verdicts:
            raise KymographError(f"no run fits any of the {len(own)} claims; look at their study, arm and where")
    return Verdicts(tuple(verdicts), facts)


@dataclass(frozen=True)
class _Evidence:
    """The runs that verdicts rest on: of a whole directory, or of a store that somebody chose."""

    root: Path | None
    finished: Sequence[StoredRun]
    planned: Sequence[RunSpec]
    invalid: Sequence[StoredRun | Damaged]
    declarations: Mapping[str, Declaration]
    log: Log
    listed: frozenset[str]
    """The ids of all runs in the plans, whatever was chosen since."""
    whole: bool

    @property
    def studies(self) -> list[str]:
        """The studies that are judged; those that were only planned too, if the whole directory is."""
        runs: Iterator[StoredRun | Damaged | RunSpec] = iter((*self.finished, *self.invalid))
        named = [run.study for run in runs] + [run.study for run in self.planned if self.whole]
        return list(dict.fromkeys(named))


def _evidence(runs: Archive | Store | str | Path) -> _Evidence:
    if isinstance(runs, Store):
        planned = read_plan(runs.root) if runs.root is not None else []
        history = Log() if runs.root is None else Log.read(runs.root)
        listed = frozenset(run.id for run in planned)
        return _Evidence(
            runs.root, [*runs.finished], planned, [*runs.failed], runs.declarations, history, listed, whole=False
        )
    archive = runs if isinstance(runs, Archive) else Archive.open(runs).checked()
    store = archive.store
    invalid = [*store.failed, *archive.damaged]
    listed = frozenset(run.id for run in archive.planned)
    return _Evidence(
        archive.root, [*store.finished], archive.planned, invalid, archive.declarations, archive.log, listed, whole=True
    )


def _in_order(evidence: _Evidence) -> list[Declaration]:
    """Returns what the studies declare, in the order that they declare."""
    declarations = [declaration_of(name, evidence.declarations) for name in evidence.studies]
    return sorted(declarations, key=lambda one: (one.order, one.name))


def _chosen(evidence: _Evidence, where: dict[str, Any], only: Collection[str] | None) -> _Evidence:
    """Keeps the runs with the ids and settings asked for; a study that lacks a setting is not filtered by it."""
    known: dict[str, set[str]] = {}
    for study, names in (
        *((run.study, set(run.config)) for run in evidence.finished),
        *((run.study, set(run.settings)) for run in evidence.planned),
    ):
        known.setdefault(study, set()).update(names)
    for name in where:
        if not any(name in names for names in known.values()):
            raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, set().union(*known.values()))}")

    def fits(run: StoredRun | Damaged | RunSpec) -> bool:
        if only is not None and run.id not in only:
            return False
        config = run.config
        names = known.get(run.study, set())
        return config is None or all(config.get(name) == value for name, value in where.items() if name in names)

    return replace(
        evidence,
        finished=[run for run in evidence.finished if fits(run)],
        planned=[run for run in evidence.planned if fits(run)],
        invalid=[run for run in evidence.invalid if fits(run)],
    )


def _with_registration(verdict: Verdict, known: Sequence[Registration]) -> Verdict:
    """Returns the verdict with the digest of the registration that states its claim as judged, if there is one."""
    name, content = registration.key(verdict.claim), verdict.claim.content
    mine = next((one for one in known if one.claims.get(name) == content), None)
    if mine is None:
        return verdict
    facts = {"digest": mine.digest, "seeds": list(mine.seeds), "design": dict(mine.design)}
    return replace(verdict, registered=facts)


def _code_changed(study: Study | None, declaration: Declaration) -> str:
    """Returns how a study that the user named differs from the code that made the runs, in words; empty if not."""
    if study is None or not declaration.stored or study.source == declaration.source:
        return ""
    return f"the study's code has changed since these runs (source {declaration.source} is now {study.source})"


def _standing(claim: Claim, world: World, known: Sequence[Registration], evidence: _Evidence) -> str:
    """Returns how a claim stands to its registration, and whether the look at it is interim."""
    arms = {quantity.arm for quantity in quantities(claim)}
    mine = [run for run in evidence.finished if run.study == claim.study or claim.study == OWN_STUDY]
    mine = [run for run in mine if run.arm in arms and (world.seeds is None or run.seed in world.seeds)]
    words = logged.standing(claim, mine, known, evidence.log)
    given_up = abandoned_runs(evidence.log)
    lost = [run for run in logged_runs(evidence.log) if run.id in given_up and run.arm in arms]
    if lost:
        words = f"{registration.POST_HOC}: {len(lost)} planned runs were abandoned ({given_up[lost[0].id]})"
    there = {run.seed for run in mine}
    if world.seeds and not there >= set(world.seeds):
        words += f", interim: {len(there & set(world.seeds))} of {len(world.seeds)} registered seeds"
    return words


def _changed_records(
    study: str, evidence: _Evidence, registered: Mapping[str, Mapping[str, Any]], known: Sequence[Registration]
) -> list[str]:
    """Returns what was deleted or edited since it was logged."""
    history, found = evidence.log, list(evidence.log.problems)
    gone = [run for run in evidence.finished if set(run.log_heads or ()) - set(history.entries)]
    if gone:
        found.append(f"the log that {len(gone)} runs refer to is missing or was cut off")
    if evidence.root is None:
        return found
    unlisted = [run for run in logged_runs(history) if run.study == study and run.id not in evidence.listed]
    if unlisted:
        found.append(f"the plan of {study} was deleted or shortened: {len(unlisted)} planned runs are not in it")
    declared = logged_declarations(history, study)
    if declared and declaration_digest(evidence.root / slug(study)) not in declared:
        found.append(f"what {study} declares was changed since it was logged")
    for name, content in {name: content for one in known for name, content in one.claims.items()}.items():
        if name in registered and registered[name].get("claim") not in (content, *_all_statements(name, known)):
            found.append(f"the registered text of {name!r} was changed since it was logged")
    return found


def _all_statements(name: str, known: Sequence[Registration]) -> list[Mapping[str, Any]]:
    return [one.claims[name] for one in known if name in one.claims]


def _world(
    declaration: Declaration,
    evidence: _Evidence,
    known: Sequence[Registration],
    registered: Mapping[str, Mapping[str, Any]],
) -> World:
    """Returns what is known about one study's runs; those of its earlier code are only counted."""
    name = declaration.name
    given_up = abandoned_runs(evidence.log)
    finished = [run for run in evidence.finished if run.study == name and run.id not in given_up]
    planned = [run for run in evidence.planned if run.study == name and run.id not in given_up]
    invalid = [run for run in evidence.invalid if run.study == name and run.id not in given_up]
    seeds = known[0].seeds if known else None
    further: dict[str, list[int]] = {}
    if seeds is not None:
        for run in finished:
            if run.seed not in seeds:
                further.setdefault(run.arm, []).append(run.seed)
        finished = [run for run in finished if run.seed in seeds]
        planned = [run for run in planned if run.seed in seeds]
        invalid = [run for run in invalid if run.seed in seeds]
    specs = [*(run.spec for run in finished), *planned]
    code = current_code(specs, evidence.declarations).get(name)
    superseded: dict[str, list[str]] = {}
    if code is not None:
        for run in finished:
            if not code.made(run.spec):
                superseded.setdefault(run.arm, []).append(code_text(run.spec))
        finished = [run for run in finished if code.made(run.spec)]
        planned = [run for run in planned if code.made(run)]
        invalid = [run for run in invalid if isinstance(run, Damaged) or code.made(run.spec)]
    unjudged: dict[str, list[int]] = {}
    if not evidence.whole:
        there = {(run.arm, json.dumps(dict(run.config), sort_keys=True), run.seed) for run in finished}
        settings = {(arm, config) for arm, config, _ in there}
        for spec in planned:
            config = json.dumps(spec.settings, sort_keys=True)
            if (spec.arm, config) in settings and (spec.arm, config, spec.seed) not in there:
                unjudged.setdefault(spec.arm, []).append(spec.seed)
        planned = []
    counted: list[Invalid] = list(invalid)
    return World(
        finished,
        planned,
        counted,
        declaration.declared_fields,
        declaration.qualifying,
        unjudged,
        superseded,
        "",
        _changed_records(name, evidence, registered, known),
        seeds,
        further,
    )


def judge_csv(first: str | Path, second: str | Path, claims: str | Path | None = None) -> Verdicts:
    """Judges two directories of CSV files (columns seed, step, value), each one arm under its own name.

    Without claims every shared series is asked whether its last value is greater in the first; such a claim was
    registered by nobody and is marked post hoc.
    """
    arms = [read_csv_arm(first), read_csv_arm(second)]
    if arms[0][0].arm == arms[1][0].arm:
        raise KymographError(f"both directories are called {arms[0][0].arm!r}, and that is the arms' name; rename one")
    world = World([run for arm in arms for run in arm])
    asked_for = read_claims(claims) if claims is not None else _last_values(arms)
    ready = [claim for claim in asked_for if asked(claim, world)]
    if not ready:
        raise KymographError(f"no claim is about the arms {arms[0][0].arm} and {arms[1][0].arm}")
    return Verdicts(tuple(decide_claims(ready, world, lambda claim: registration.POST_HOC)))


def _last_values(arms: Sequence[Sequence[ImportedRun]]) -> list[Claim]:
    names = [{name for run in arm for name in run.series} for arm in arms]
    shared = sorted(names[0] & names[1])
    if not shared:
        raise KymographError("the two directories have no CSV file of one name; name the files after the series")
    one, other = arms[0][0].arm, arms[1][0].arm
    return [
        Claim(
            f"last {name}", "csv", "own", f"the last {name} is greater in {one} than in {other}",
            "asked of every series",
            Quantity(one, Measure(name, "last")), Quantity(other, Measure(name, "last")), "greater", 0.0,
        )
        for name in shared
    ]  # fmt: skip
