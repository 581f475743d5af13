"""Judging a directory of runs: every study's registered claims, or a user's own.

A verdict is made in three steps: which runs count (`study_evidence`), which numbers they give for a claim (`estimate`),
and which outcome these have (`decide_family`), with all claims of a study corrected together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._claims.claim import ABSENCES, MANIPULATION_CHECK, Claim, Side
from kymograph._claims.claim_files import OWN_STUDY, read_claims
from kymograph._claims.decision import (
    Decision,
    WeighedEvidence,
    decide_family,
    direction_sign,
    failing_note,
    reason,
    size_on_scale,
    weigh,
)
from kymograph._claims.design import LEVEL
from kymograph._claims.estimands import Range, effect_bounds, estimate, natural, on_scale
from kymograph._claims.evidence import (
    Narrowing,
    StudyEvidence,
    has_planned_runs,
    named_settings,
    setup_label,
    study_evidence,
)
from kymograph._claims.grid import claims_on_grid
from kymograph._claims.registration import (
    Registration,
    dropped_claims,
    family,
    key,
    log_problems,
    registration_of,
    registration_status,
    registrations_about,
    version,
)
from kymograph._claims.verdict import Outcome, Point, Verdict, Verdicts
from kymograph._errors import KymographError
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.log import Log
from kymograph._runs.store import Store
from kymograph._statistics.effects import hedges_g, iqm, pairing_gain, probability_of_improvement, superiority
from kymograph._statistics.intervals import bca_interval, binomial_upper_bound, t_interval
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
    if isinstance(runs, Store):
        directory = Directory.holding(runs)
    else:
        directory = runs if isinstance(runs, Directory) else Directory(runs).checked()
    if not (directory.store.runs or directory.planned or directory.damaged):
        root = directory.root
        raise KymographError(f"{root} contains no runs; make some with `kymograph run STUDY --dir {root}`")
    narrowing, problems = Narrowing.of(directory, dict(where or {}), only), log_problems(directory.log)
    stated = read_claims(claims) if isinstance(claims, str | Path) else None if claims is None else list(claims)
    code = {study.name: study for study in studies}
    verdicts: list[Verdict] = []
    never_run: list[str] = []
    for declaration in _judged_studies(directory, narrowing):
        of_study, left_out = _judge_study(
            declaration, directory, narrowing, problems, code.get(declaration.name), stated
        )
        verdicts += of_study
        never_run += left_out
    if stated is None:
        return Verdicts(tuple(verdicts), never_run=tuple(never_run))
    if not verdicts:
        raise KymographError(f"no run fits any of {counted(len(stated), 'claim')}; check their study, arm and where")
    decided = {verdict.claim.name for verdict in verdicts}
    return Verdicts(tuple(verdicts), without_runs=tuple(claim.name for claim in stated if claim.name not in decided))


def _judged_studies(directory: Directory, narrowing: Narrowing) -> list[Declaration]:
    """Returns the studies to judge, as declared; for a whole directory, also those that were only planned."""
    names = {run.study for run in (*directory.store, *directory.damaged) if narrowing.keeps(run)}
    if directory.whole:
        names |= {run.study for run in directory.planned if narrowing.keeps(run)}
        # A study whose directory was deleted is still in the log.
        names |= {run.study for run in directory.history.planned.values() if directory.only in (None, run.study)}
    declarations = [declaration_of(name, directory.declarations) for name in names]
    return sorted(declarations, key=lambda declaration: (declaration.order, declaration.name))


def _judge_study(
    declaration: Declaration,
    directory: Directory,
    narrowing: Narrowing,
    problems_of_log: Sequence[str],
    code: Study[Any] | None,
    stated: Sequence[Claim] | None,
) -> tuple[list[Verdict], list[str]]:
    """Returns the verdicts on one study's claims, and the names of the claims whose arms were never run.

    ``code`` is the study's code, if the user named it; ``stated`` are the user's own claims, if there are any.
    """
    registered = registrations_about(directory.log, declaration.name)
    evidence = study_evidence(directory, declaration, registered, narrowing, problems_of_log)  # which runs
    claims, no_longer_claimed = _claims_about(evidence, directory.log, code, stated)
    ready = [claim for claim in claims if has_planned_runs(claim, evidence)]
    # Claims whose arms were never run count too: registering many claims and running one claim's arms is selection.
    unjudged = family(registered) - set(map(version, ready))
    evidence = replace(
        evidence,
        unjudged_claims=len(unjudged),
        never_run_claims=len(unjudged.intersection(map(version, claims))),
        code_changed=_code_changed(code, declaration),
    )

    def status(claim: Claim) -> str:
        words = registration_status(claim, evidence, registered, directory.history)
        return f"{words}, and no longer claimed" if key(claim) in no_longer_claimed else words

    planned = set(map(id, ready))
    never_run = [claim.name for claim in claims if id(claim) not in planned]
    return decide_claims(ready, evidence, status, registered), never_run


def decide_claims(
    claims: Iterable[Claim],
    evidence: StudyEvidence,
    status: Callable[[Claim], str],
    registered: Sequence[Registration] = (),
) -> list[Verdict]:
    """Returns a verdict on every claim of one study; its findings, including those not judged here, are one family.

    Manipulation checks are not findings: they are a family of their own. ``status`` returns a claim's registration
    status, e.g. ``registered``; ``registered`` are the registrations that may state it.
    """
    estimates = [(claim, estimate(claim, evidence)) for claim in claims]  # which numbers
    verdicts: dict[int, Verdict] = {}
    for kind, unjudged in ((None, evidence.unjudged_claims), (MANIPULATION_CHECK, 0)):
        members = {index: pair for index, pair in enumerate(estimates) if pair[0].kind == kind}
        evidences = [
            None if made.problem else weigh(claim, made.values, made.looks) for claim, made in members.values()
        ]
        decisions = decide_family([claim for claim, _ in members.values()], evidences, unjudged)  # which outcome
        for (index, (claim, made)), weighed, decision in zip(members.items(), evidences, decisions, strict=True):
            # INVALID unless it is decided below: this outcome is given here and nowhere else.
            verdict = Verdict(
                claim, Outcome.INVALID, made.problem, status(claim), made.points, made.checks, made.notes,
                settings=named_settings(claim, evidence), setup=setup_label(claim, evidence),
                registered=registration_of(claim, registered),
                interval_level=made.level, family_size=len(members) + unjudged,
            )  # fmt: skip
            if weighed is not None and decision is not None:
                verdict = _with_outcome(verdict, weighed, decision, evidence.declaration.bounds)
            verdicts[index] = verdict
    return [verdicts[index] for index in range(len(estimates))]


def _claims_about(
    evidence: StudyEvidence, log: Log, code: Study[Any] | None, stated: Sequence[Claim] | None
) -> tuple[list[Claim], set[str]]:
    """Returns the claims to judge, and the keys of those that were registered and that the study's code lacks."""
    name = evidence.declaration.name
    if stated is not None:
        return [claim for claim in stated if claim.study in (name, OWN_STUDY)], set()
    study = code or registered_study(name)
    grid = {} if evidence.terms is None else evidence.terms.grid
    claims = [] if study is None else claims_on_grid(study.claims(), grid)
    dropped = dropped_claims(claims, log, name)
    return [*claims, *dropped], set() if study is None else set(map(key, dropped))


def _code_changed(code: Study[Any] | None, declaration: Declaration) -> str:
    """Returns how the code that the user named differs from the code of the runs, in words; empty if it does not."""
    if code is None or not declaration.stored or code.source == declaration.source:
        return ""
    return f"the study's code has changed since these runs (source {declaration.source} is now {code.source})"


def _with_outcome(
    draft: Verdict, weighed: WeighedEvidence, decision: Decision, declared: Mapping[str, Range]
) -> Verdict:
    """Returns the verdict with its outcome, and everything that describes the effect.

    ``declared`` are the ranges of bounded numbers that the study declares.
    """
    claim, points, family_size = draft.claim, draft.points, draft.family_size or 1
    values = np.array([point.value for point in points])
    left, right = (np.array([getattr(point, side) for point in points]) for side in ("left", "right"))
    scaled = np.array([on_scale(point, claim) for point in points])
    if claim.interaction is not None:  # a ratio of ratios may overflow, its logarithm does not
        left, right = scaled.T
    why, needed = reason(claim, decision, weighed, family_size)
    notes = list(draft.notes)
    if not decision.reachable and decision.outcome is Outcome.EQUIVALENT:
        notes.append(f"{draft.n} seeds could not have shown an effect at {claim.alpha:g} in a family of {family_size}")
    failing, bound = _failing(claim, points)
    if failing is not None and bound is not None:
        notes.append(failing_note(failing, draft.n, bound))
    bca = bca_interval(values)
    least, most = effect_bounds(claim, points, declared)

    def natural_interval(ends: Range) -> Range:
        low, high = (min(max(natural(claim, end), least), most) for end in ends)
        return low, high

    tests = weighed.bounds.equivalence > 0
    level = _equivalence_level(claim, draft.interval_level) if tests or claim.direction == "equal" else None
    return replace(
        draft,
        outcome=decision.outcome,
        reason=why,
        notes=tuple(notes),
        effect=natural(claim, float(values.mean())),
        interval=natural_interval(t_interval(values, draft.interval_level)),
        equivalence_interval=None if level is None else natural_interval(t_interval(values, level)),
        equivalence_level=level,
        bca=None if bca is None else natural_interval(bca),
        p=decision.p,
        p_t=float(weighed.t.direction),
        p_flip=float(weighed.flip.direction),
        hedges_g=_none_if_nan(hedges_g(values)),
        superiority=superiority(left, right),
        tost_p=float(weighed.t.equivalence) if tests else None,
        iqm=natural(claim, iqm(values)),
        improvement=probability_of_improvement(left, right),
        seeds_needed=needed,
        p_zero=decision.p_zero,
        p_margin=decision.p_margin,
        p_equivalence=decision.p_equivalence if tests else None,
        tost_flip_p=float(weighed.flip.equivalence) if tests else None,
        pairing_gain=_none_if_nan(pairing_gain(*scaled.T)) if isinstance(claim.right, Side) else None,
        failing_seeds=failing,
        failing_rate_bound=bound,
    )


def _equivalence_level(claim: Claim, interval_level: float) -> float:
    """Returns the level of the interval by which equivalence is decided, before the correction over the family.

    Equivalence spends alpha on each side, and a claim of equality half of it. A look spends only its share of alpha.
    """
    share = (1 - interval_level) / (1 - LEVEL)
    return 1 - share * claim.alpha * (1 if claim.direction == "equal" else 2)


def _failing(claim: Claim, points: tuple[Point, ...]) -> tuple[tuple[int, ...] | None, float | None]:
    """Returns the seeds beyond the margin that a claim of absence allows, and the upper bound on their rate."""
    if claim.direction not in (*ABSENCES, "equal"):
        return None, None
    margin, sign = size_on_scale(claim, claim.margin), direction_sign(claim)

    def fails(value: float) -> bool:
        return abs(value) > margin if claim.direction == "equal" else sign * value < -margin

    seeds = tuple(point.seed for point in points if fails(point.value))
    return seeds, binomial_upper_bound(len(seeds), len(points), 1 - claim.alpha)


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
