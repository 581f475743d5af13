"""Judging a directory of runs: every study's registered claims, or a user's own."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.design import completed
from kymograph.claims.evidence import Invalid, StudyEvidence, fits, has_planned_runs, quantities
from kymograph.claims.family import decide_claims
from kymograph.claims.files import OWN_STUDY, read_claims
from kymograph.claims.grid import Grid, claims_on_grid
from kymograph.claims.registration import Registration, log_problems, registrations
from kymograph.claims.tuning import tuned_arms, with_chosen
from kymograph.claims.verdict import Verdict, Verdicts
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.declaration import ArmSettings, Declaration
from kymograph.runs.history import History, code_text, current_code, declaration_digest, logged_declarations, read_plan
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec, slug
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.studies.loading import declaration_of, registered_study
from kymograph.studies.study import Study
from kymograph.wording import counted


@dataclass(frozen=True)
class JudgedRuns:
    """The runs that verdicts rest on: of a whole directory, or of a store."""

    root: Path | None
    finished: Sequence[StoredRun]
    planned: Sequence[RunSpec]
    invalid: Sequence[StoredRun | Damaged]
    declarations: Mapping[str, Declaration]
    log: Log
    whole: bool
    only: str | None = None
    """The only study to judge; None: all."""
    unfiltered: bool = True
    """Whether no run was left out by its settings or id."""
    unreadable: Sequence[str] = ()
    """Directories that may hold runs but could not be read, in words."""

    @property
    def studies(self) -> list[str]:
        """The studies to judge; for a whole directory, also those that were only planned."""
        runs: Iterator[StoredRun | Damaged | RunSpec] = iter((*self.finished, *self.invalid))
        named = [run.study for run in runs]
        if self.whole:
            # A study whose directory was deleted is still in the log.
            logged = [run.study for run in self.history.planned.values() if self.only in (None, run.study)]
            named += [run.study for run in self.planned] + logged
        return list(dict.fromkeys(named))

    @functools.cached_property
    def history(self) -> History:
        """What the log says about runs."""
        return History(self.log)

    @functools.cached_property
    def log_problems(self) -> list[str]:
        """What is wrong with the log, in words."""
        return log_problems(self.log)


def gather(runs: Archive | Store | str | Path) -> JudgedRuns:
    """Returns the runs of a directory, which is read in full, or those of a store as they are."""
    if isinstance(runs, Store):
        planned = read_plan(runs.root) if runs.root is not None else []
        history = Log() if runs.root is None else Log.read(runs.root)
        return JudgedRuns(runs.root, [*runs.finished], planned, [*runs.failed], runs.declarations, history, whole=False)
    archive = runs if isinstance(runs, Archive) else Archive.open(runs).checked()
    store = archive.store
    invalid = [*store.failed, *archive.damaged]
    return JudgedRuns(
        archive.root,
        [*store.finished],
        archive.planned,
        invalid,
        archive.declarations,
        archive.log,
        whole=True,
        only=archive.only,
        unreadable=archive.unreadable,
    )


def in_order(evidence: JudgedRuns) -> list[Declaration]:
    """Returns the studies' declarations, in their declared order."""
    declarations = [declaration_of(name, evidence.declarations) for name in evidence.studies]
    return sorted(declarations, key=lambda one: (one.order, one.name))


def choose(evidence: JudgedRuns, where: dict[str, Any], only: Collection[str] | None) -> JudgedRuns:
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
        unfiltered=not where and only is None,
        finished=[run for run in evidence.finished if fits(run)],
        planned=[run for run in evidence.planned if fits(run)],
        invalid=[run for run in evidence.invalid if fits(run)],
    )


def judge(
    runs: Archive | Store | str | Path,
    claims: Iterable[Claim] | str | Path | None = None,
    where: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    studies: Iterable[Study] = (),
) -> Verdicts:
    """Judges the claims of every study that has runs in a store or directory; needs no torch.

    Args:
        runs: a store, or the directory of the runs. A directory is judged whole: a planned run that is missing, or a
            record that was changed, makes a claim INVALID. A store is judged as it is, and a verdict names the planned
            seeds that it lacks.
        claims: claims of your own, or a TOML or Python file of them; default: those of the studies.
        where: only runs with these settings, e.g. ``{"epochs": 60}``; a study without such a setting is judged whole.
        only: only runs with these ids.
        studies: user-defined studies, whose code states their claims; without it the claims that were registered with
            the runs are judged.
    """
    evidence = gather(runs)
    if not (evidence.finished or evidence.planned or evidence.invalid):
        root = evidence.root
        raise KymographError(f"{root} contains no runs; make some with `kymograph run STUDY --out {root}`")
    where = dict(where or {})
    evidence = choose(evidence, where, only)
    own = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    shared = registrations(evidence.log, OWN_STUDY)
    named = {study.name: study for study in studies}
    verdicts: list[Verdict] = []
    never_planned: list[str] = []
    for declaration in in_order(evidence):
        name = declaration.name
        study = named.get(name) or registered_study(name)
        known = [*registrations(evidence.log, name), *shared]
        world = _world(declaration, evidence, known)
        claims_here = [] if study is None else claims_on_grid(study.claims(), _grid(name, known, evidence))
        old = registration.dropped_claims(
            claims_here, registration.registered_contents(evidence.log, evidence.root, name)
        )
        if own is not None:
            claims_here, old = [claim for claim in own if claim.study in (name, OWN_STUDY)], []
        ready = [claim for claim in (*claims_here, *old) if has_planned_runs(claim, world)]
        # Claims whose arms were never run count too: registering many claims and running one claim's arms is selection.
        judged = {(registration.key(claim), registration.statement(claim.content)) for claim in ready}
        unjudged = registration.family(known) - judged
        never_run = {
            (registration.key(claim), registration.statement(claim.content)) for claim in (*claims_here, *old)
        } & unjudged
        world = replace(
            world,
            unjudged_claims=len(unjudged),
            never_run_claims=len(never_run),
            code_changed=_code_changed(named.get(name), declaration),
            narrowed=_narrowing(where, world),
        )
        judged_here = set(map(id, ready))
        never_planned += [claim.name for claim in (*claims_here, *old) if id(claim) not in judged_here]
        dropped = {registration.key(claim) for claim in old} if study is not None else set()

        def status_of(
            claim: Claim, dropped: set[str] = dropped, world: StudyEvidence = world, known: list[Registration] = known
        ) -> str:
            words = _registration_status(claim, world, known, evidence)
            return f"{words}, and no longer claimed" if registration.key(claim) in dropped else words

        verdicts += [_with_registration(verdict, known) for verdict in decide_claims(ready, world, status_of)]
    if own is not None:
        decided = {verdict.claim.name for verdict in verdicts}
        if not verdicts:
            raise KymographError(f"no run fits any of {counted(len(own), 'claim')}; check their study, arm and where")
        without_runs = tuple(claim.name for claim in own if claim.name not in decided)
        return Verdicts(tuple(verdicts), without_runs=without_runs)
    return Verdicts(tuple(verdicts), never_run=tuple(never_planned))


def _grid(study: str, known: Sequence[Registration], evidence: JudgedRuns) -> Grid:
    """Returns the grid that the study's claims were registered on; empty if there is none."""
    first = registration.binding(known, study, evidence.log)
    return {} if first is None else first.terms.grid


def _narrowing(where: Mapping[str, Any], world: StudyEvidence) -> str:
    """Returns which settings the study's runs were narrowed to, in words; empty if it has none of them."""
    known = {name for run in world.runs for name in run.config} | {
        name for run in world.planned for name in run.settings
    }
    applied = [f"{name}={value}" for name, value in where.items() if name in known]
    return f"--where {' '.join(applied)}" if applied else ""


def _with_registration(verdict: Verdict, known: Sequence[Registration]) -> Verdict:
    """Returns the verdict with the digest of the registration that states its claim as judged, if there is one."""
    name, content = registration.key(verdict.claim), verdict.claim.content
    matching = next((one for one in known if one.claims.get(name) == content), None)
    if matching is None:
        return verdict
    return replace(verdict, registered={"digest": matching.digest, **matching.terms.to_json()})


def _code_changed(study: Study | None, declaration: Declaration) -> str:
    """Returns in words how a study that the user named differs from the code behind the runs; empty if it does not."""
    if study is None or not declaration.stored or study.source == declaration.source:
        return ""
    return f"the study's code has changed since these runs (source {declaration.source} is now {study.source})"


def _registration_status(
    claim: Claim, world: StudyEvidence, known: Sequence[Registration], evidence: JudgedRuns
) -> str:
    """Returns in words whether a claim is registered or post hoc, and which look at its seeds this is."""
    selected = [world.selected(quantity) for quantity in quantities(claim)]
    ids = {run.id for one in selected for run in one.runs if isinstance(run, StoredRun)}
    runs = [run for run in evidence.finished if run.id in ids]
    tuned = [world.tuned[quantity.arm] for quantity in quantities(claim) if quantity.arm in world.tuned]
    runs += {run.id: run for one in tuned for run in one.runs}.values()  # tuning runs must come after the claim, too
    words = registration.registration_status(claim, runs, known, evidence.history)
    departure = next((one.departure for one in selected if one.departure), "")
    if departure and not words.startswith((registration.POST_HOC, registration.NOT_LOGGED)):
        words = f"{registration.POST_HOC}: other settings than registered ({departure})"
    lost = [run for quantity in quantities(claim) for run in world.abandoned if fits(run, quantity)]
    if lost:
        reason = evidence.history.abandoned[lost[0].id]
        count = counted(len({run.id for run in lost}), "planned run was", "planned runs were")
        words = f"{registration.POST_HOC}: {count} abandoned ({reason})"
    anew = [run for run in runs if run.id in evidence.history.replaced]
    if anew:
        words = f"{registration.POST_HOC}: {counted(len(anew), 'run was', 'runs were')} recorded again"
    # A seed counts once every arm of the claim has it.
    seeds = [{run.seed for run in one.runs} for one in selected]
    return words + _look(world, set.intersection(*seeds) if seeds else set())


def _look(world: StudyEvidence, seeds: set[int]) -> str:
    """Returns which look at the registered seeds this is, in words; empty if it is the only one and complete."""
    if not world.seeds or world.design is None:
        return ""
    looks = completed(seeds, world.seeds, world.design)
    if not looks:
        return f", interim: {len(seeds & set(world.seeds))} of {len(world.seeds)} registered seeds"
    if not world.design.sequential:
        return ""
    return f", look {len(looks)} of {len(world.design.sizes)} ({looks[-1].seeds} of {len(world.seeds)} seeds)"


def _changed_records(study: str, evidence: JudgedRuns, known: Sequence[Registration]) -> list[str]:
    """Returns what was deleted or edited since it was logged."""
    history, found = evidence.log, [*evidence.log_problems, *registration.conflicts(known, study, evidence.log)]
    gone = [run for run in evidence.finished if set(run.log_heads or ()) - set(history.entries)]
    if gone:
        found.append(f"the log that {len(gone)} runs refer to is missing or was cut off")
    found += [reason for reason in evidence.unreadable if reason.startswith(f"cannot read {slug(study)}:")]
    if evidence.root is None:
        return found
    declared = logged_declarations(history, study)
    if declared and declaration_digest(evidence.root / slug(study)) not in declared:
        found.append(f"the declaration of {study} was changed since it was logged")
    return found


def _world(declaration: Declaration, evidence: JudgedRuns, known: Sequence[Registration]) -> StudyEvidence:
    """Returns what is known about one study's runs; those of its earlier code are only counted."""
    name = declaration.name
    given_up = evidence.history.abandoned
    finished = [run for run in evidence.finished if run.study == name and run.id not in given_up]
    # What was planned is in the log, even if the terms was deleted with the runs.
    every = {run.id: run for run in evidence.planned} | (evidence.history.planned if evidence.unfiltered else {})
    planned = [run for run in every.values() if run.study == name and run.id not in given_up]
    invalid = [run for run in evidence.invalid if run.study == name and run.id not in given_up]
    first = registration.binding(known, name, evidence.log)
    terms = first.terms if first is not None else None
    seeds = terms.seeds if terms is not None else None
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
        # Runs that were deleted count as well: the log has them.
        for spec in ({run.id: run.spec for run in finished} | evidence.history.planned).values():
            if spec.study == name and spec.id not in given_up and not code.made(spec):
                superseded.setdefault(spec.arm, []).append(code_text(spec))
        finished = [run for run in finished if code.made(run.spec)]
        planned = [run for run in planned if code.made(run)]
        invalid = [run for run in invalid if isinstance(run, Damaged) or code.made(run.spec)]
    unjudged: dict[str, list[int]] = {}
    if not evidence.whole:
        present = {(run.arm, json.dumps(dict(run.config), sort_keys=True), run.seed) for run in finished}
        settings = {(arm, config) for arm, config, _ in present}
        for spec in planned:
            config = json.dumps(spec.settings, sort_keys=True)
            if (spec.arm, config) in settings and (spec.arm, config, spec.seed) not in present:
                unjudged.setdefault(spec.arm, []).append(spec.seed)
        planned = []
    counted: list[Invalid] = list(invalid)
    tuned = tuned_arms(terms, declaration, finished, evidence.root, evidence.history)
    return StudyEvidence(
        finished,
        planned,
        counted,
        declaration.declared_fields,
        declaration.qualifying,
        unjudged,
        superseded,
        "",
        _changed_records(name, evidence, known),
        seeds,
        terms.design if terms is not None else None,
        further,
        registered=with_chosen(
            terms.settings_given(declaration.defaults) if terms is not None else ArmSettings(), tuned
        ),
        defaults=declaration.defaults,
        script=declaration.script,
        bookkeeping=declaration.bookkeeping,
        abandoned=[run for run in evidence.history.planned.values() if run.study == name and run.id in given_up],
        tuned=tuned,
        declaration=declaration,
    )
