"""Judging a directory of runs: every study's registered claims, or a user's own.

For each study: which runs count (`study_evidence`), which claims can be judged on them, whether each was registered in
time, and, in `kymograph._claims.family`, the verdicts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph._claims import registration
from kymograph._claims.claim import Claim
from kymograph._claims.claim_files import OWN_STUDY, read_claims
from kymograph._claims.design import completed
from kymograph._claims.evidence import StudyEvidence, fits, has_planned_runs
from kymograph._claims.family import decide_claims
from kymograph._claims.grid import claims_on_grid
from kymograph._claims.registration import NOT_LOGGED, POST_HOC, Registration, log_problems, registrations
from kymograph._claims.tuning import tuned_arms, with_chosen
from kymograph._claims.verdict import INTERIM, Verdict, Verdicts
from kymograph._errors import KymographError, did_you_mean
from kymograph._runs.declaration import ArmSettings, Declaration
from kymograph._runs.directory import Damaged, Directory
from kymograph._runs.history import (
    History,
    code_words,
    current_code,
    declaration_digest,
)
from kymograph._runs.log import Log
from kymograph._runs.spec import RunSpec, slug
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._studies.loading import declaration_of, registered_study
from kymograph._studies.study import Study
from kymograph._wording import counted


def judge(
    runs: Directory | Store | str | Path,
    claims: Iterable[Claim] | str | Path | None = None,
    where: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    studies: Iterable[Study[Any]] = (),
) -> Verdicts:
    """Judges the claims of every study that has runs in a store or directory; needs no torch.

    >>> verdict, = ky.judge("runs")
    >>> verdict.outcome, verdict.claim.name, verdict.n
    (<Outcome.SUPPORTED: 'SUPPORTED'>, 'sharpness: warmup < constant', 10)

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
    judged = gather(runs)
    if not (judged.finished or judged.planned or judged.invalid):
        root = judged.root
        raise KymographError(f"{root} contains no runs; make some with `kymograph run STUDY --dir {root}`")
    judged = narrow(judged, dict(where or {}), only)
    stated = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    code = {study.name: study for study in studies}
    verdicts: list[Verdict] = []
    never_run: list[str] = []
    declarations = [declaration_of(name, judged.declarations) for name in judged.studies]
    for declaration in sorted(declarations, key=lambda declaration: (declaration.order, declaration.name)):
        of_study, left_out = _judge_study(declaration, judged, code.get(declaration.name), stated)
        verdicts += of_study
        never_run += left_out
    if stated is None:
        return Verdicts(tuple(verdicts), never_run=tuple(never_run))
    if not verdicts:
        raise KymographError(f"no run fits any of {counted(len(stated), 'claim')}; check their study, arm and where")
    decided = {verdict.claim.name for verdict in verdicts}
    return Verdicts(tuple(verdicts), without_runs=tuple(claim.name for claim in stated if claim.name not in decided))


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
    where: Mapping[str, Any] = field(default_factory=dict)
    """The settings that runs were chosen by."""
    unfiltered: bool = True
    """Whether no run was left out by its settings or id."""
    unreadable: Sequence[str] = ()
    """Directories that may hold runs but could not be read, in words."""

    @property
    def studies(self) -> list[str]:
        """The studies to judge; for a whole directory, also those that were only planned."""
        named = [run.study for run in (*self.finished, *self.invalid)]
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


def gather(runs: Directory | Store | str | Path) -> JudgedRuns:
    """Returns the runs of a directory, which is read in full, or those of a store as they are."""
    if isinstance(runs, Store):
        planned = [] if runs.directory is None else runs.directory.planned
        log = Log() if runs.directory is None else runs.directory.log
        return JudgedRuns(runs.root, [*runs.finished], planned, [*runs.failed], runs.declarations, log, whole=False)
    directory = runs if isinstance(runs, Directory) else Directory(runs).checked()
    return JudgedRuns(
        directory.root,
        [*directory.store.finished],
        directory.planned,
        [*directory.store.failed, *directory.damaged],
        directory.declarations,
        directory.log,
        whole=True,
        only=directory.only,
        unreadable=directory.unreadable,
    )


def narrow(judged: JudgedRuns, where: dict[str, Any], only: Collection[str] | None) -> JudgedRuns:
    """Keeps the runs with the ids and settings asked for; a study that lacks a setting is not filtered by it."""
    names_of: dict[str, set[str]] = {}
    for study, names in (
        *((run.study, set(run.config)) for run in judged.finished),
        *((run.study, set(run.settings)) for run in judged.planned),
    ):
        names_of.setdefault(study, set()).update(names)
    for name in where:
        if not any(name in names for names in names_of.values()):
            raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, set().union(*names_of.values()))}")

    def asked_for(run: StoredRun | Damaged | RunSpec) -> bool:
        if only is not None and run.id not in only:
            return False
        config = run.config
        names = names_of.get(run.study, set())
        return config is None or all(config.get(name) == value for name, value in where.items() if name in names)

    return replace(
        judged,
        where=where,
        unfiltered=not where and only is None,
        finished=[run for run in judged.finished if asked_for(run)],
        planned=[run for run in judged.planned if asked_for(run)],
        invalid=[run for run in judged.invalid if asked_for(run)],
    )


def _judge_study(
    declaration: Declaration, judged: JudgedRuns, code: Study[Any] | None, stated: Sequence[Claim] | None
) -> tuple[list[Verdict], list[str]]:
    """Returns the verdicts on one study's claims, and the names of the claims whose arms were never run.

    ``code`` is the study's code, if the user named it; ``stated`` are the user's own claims, if there are any.
    """
    name, study = declaration.name, code or registered_study(declaration.name)
    registered = [*registrations(judged.log, name), *registrations(judged.log, OWN_STUDY)]
    evidence = study_evidence(declaration, judged, registered)
    if stated is None:
        grid = {} if evidence.terms is None else evidence.terms.grid
        claims = [] if study is None else claims_on_grid(study.claims(), grid)
        dropped = registration.dropped_claims(claims, judged.log, name)
    else:
        claims, dropped = [claim for claim in stated if claim.study in (name, OWN_STUDY)], []
    claims += dropped
    ready = [claim for claim in claims if has_planned_runs(claim, evidence)]
    # Claims whose arms were never run count too: registering many claims and running one claim's arms is selection.
    unjudged = registration.family(registered) - set(map(registration.version, ready))
    if code is not None and declaration.stored and code.source != declaration.source:
        changed = f"the study's code has changed since these runs (source {declaration.source} is now {code.source})"
    else:
        changed = ""
    evidence = replace(
        evidence,
        unjudged_claims=len(unjudged),
        never_run_claims=len(unjudged.intersection(map(registration.version, claims))),
        code_changed=changed,
    )
    no_longer_claimed = {registration.key(claim) for claim in dropped} if study is not None else set()

    def status(claim: Claim) -> str:
        words = _registration_status(claim, evidence, registered, judged)
        return f"{words}, and no longer claimed" if registration.key(claim) in no_longer_claimed else words

    verdicts = [_with_registration(verdict, registered) for verdict in decide_claims(ready, evidence, status)]
    planned = set(map(id, ready))
    return verdicts, [claim.name for claim in claims if id(claim) not in planned]


def study_evidence(declaration: Declaration, judged: JudgedRuns, registered: Sequence[Registration]) -> StudyEvidence:
    """Returns which of a study's runs count: not the abandoned, nor those of other seeds or earlier code."""
    name, history = declaration.name, judged.history

    def counts(run: StoredRun | Damaged | RunSpec) -> bool:
        return run.study == name and run.id not in history.abandoned

    finished = [run for run in judged.finished if counts(run)]
    # What was planned is in the log, even if the directory of the runs was deleted.
    every_planned = {run.id: run for run in judged.planned} | (history.planned if judged.unfiltered else {})
    planned = [run for run in every_planned.values() if counts(run)]
    invalid = [run for run in judged.invalid if counts(run)]
    binding = registration.binding(registered, name, judged.log)
    terms = None if binding is None else binding.terms
    further_seeds: dict[str, list[int]] = {}
    if terms is not None:
        for run in finished:
            if run.seed not in terms.seeds:
                further_seeds.setdefault(run.arm, []).append(run.seed)
        finished = [run for run in finished if run.seed in terms.seeds]
        planned = [run for run in planned if run.seed in terms.seeds]
        invalid = [run for run in invalid if run.seed in terms.seeds]
    code = current_code([*(run.spec for run in finished), *planned], judged.declarations).get(name)
    superseded: dict[str, list[str]] = {}
    if code is not None:
        # Runs that were deleted count as well: the log has them.
        for spec in ({run.id: run.spec for run in finished} | history.planned).values():
            if counts(spec) and not code.made(spec):
                superseded.setdefault(spec.arm, []).append(" ".join(code_words(spec)))
        finished = [run for run in finished if code.made(run.spec)]
        planned = [run for run in planned if code.made(run)]
        invalid = [run for run in invalid if isinstance(run, Damaged) or code.made(run.spec)]
    unjudged: dict[str, list[int]] = {}
    if not judged.whole:
        present = {(run.arm, json.dumps(dict(run.config), sort_keys=True), run.seed) for run in finished}
        configurations = {(arm, config) for arm, config, _ in present}
        for spec in planned:
            config = json.dumps(spec.settings, sort_keys=True)
            if (spec.arm, config) in configurations and (spec.arm, config, spec.seed) not in present:
                unjudged.setdefault(spec.arm, []).append(spec.seed)
        planned = []
    seen = {run.id for run in _seen_before_reinstated(finished, history)}
    tuned = tuned_arms(terms, declaration, finished, judged.root, history)
    settings = ArmSettings() if terms is None else terms.settings_given(declaration.defaults)
    varied = {*(key for run in finished for key in run.config), *(key for run in planned for key in run.settings)}
    narrowed = [f"{setting}={value}" for setting, value in judged.where.items() if setting in varied]
    return StudyEvidence(
        finished,
        planned,
        invalid,
        declaration,
        terms,
        with_chosen(settings, tuned),
        tuned,
        unjudged,
        superseded,
        further_seeds,
        abandoned=[run for run in history.planned.values() if run.study == name and run.id in history.abandoned],
        reinstated={run: str(why) for run, why in history.reinstated.items() if run not in seen},
        changed_records=_changed_records(name, judged, registered),
        narrowed=f"--where {' '.join(narrowed)}" if narrowed else "",
    )


def _changed_records(study: str, judged: JudgedRuns, registered: Sequence[Registration]) -> list[str]:
    """Returns what was deleted or edited since it was logged."""
    problems = [*judged.log_problems, *registration.conflicts(registered, study, judged.log)]
    gone = [run for run in judged.finished if set(run.log_heads or ()) - set(judged.log.entries)]
    if gone:
        problems.append(f"the log that {len(gone)} runs refer to is missing or was cut off")
    problems += [reason for reason in judged.unreadable if reason.startswith(f"cannot read {slug(study)}:")]
    if judged.root is not None:
        declared = judged.history.declarations(study)
        if declared and declaration_digest(judged.root / slug(study)) not in declared:
            problems.append(f"the declaration of {study} was changed since it was logged")
    return problems


def _registration_status(
    claim: Claim, evidence: StudyEvidence, registered: Sequence[Registration], judged: JudgedRuns
) -> str:
    """Returns in words whether a claim is registered or post hoc, and which look at its seeds this is."""
    selections, history = [evidence.selected(side) for side in claim.every_side], judged.history
    ids = {run.id for selected in selections for run in selected.runs if isinstance(run, StoredRun)}
    runs = [run for run in judged.finished if run.id in ids]
    tuned = [evidence.tuned[side.arm] for side in claim.every_side if side.arm in evidence.tuned]
    runs += {run.id: run for arm in tuned for run in arm.runs}.values()  # tuning runs must come after the claim, too
    words = registration.registration_status(claim, runs, registered, history)
    departure = next((selected.departure for selected in selections if selected.departure), "")
    if departure and not words.startswith((POST_HOC, NOT_LOGGED)):
        words = f"{POST_HOC}: other settings than registered ({departure})"
    lost = [run for side in claim.every_side for run in evidence.abandoned if fits(run, side)]
    # Abandoning runs, looking and taking them back is a choice made after the results, whichever way it ends.
    seen = _seen_before_reinstated(runs, history)
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


def _seen_before_reinstated(runs: Iterable[StoredRun], history: History) -> list[StoredRun]:
    """Returns the runs that were abandoned and taken back when their results may have been seen."""
    back = [run for run in runs if run.id in history.reinstated]
    return [run for run in back if history.seen_before_reinstated(run.id, run.log_heads)]


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


def _with_registration(verdict: Verdict, registered: Sequence[Registration]) -> Verdict:
    """Returns the verdict with the digest of the registration that states its claim as judged, if there is one."""
    key, content = registration.key(verdict.claim), verdict.claim.content
    matching = next((entry for entry in registered if entry.claims.get(key) == content), None)
    if matching is None:
        return verdict
    return replace(verdict, registered={"digest": matching.digest, **matching.terms.to_json()})
