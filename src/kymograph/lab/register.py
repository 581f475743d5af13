"""Registering claims in a directory before its runs exist, and checking that the seeds can decide them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.design import Design
from kymograph.claims.files import OWN_STUDY
from kymograph.claims.grid import Grid, claims_on_grid
from kymograph.claims.logged import Registration, binding, family, log_registration, registrations, statement
from kymograph.claims.plan import Plan
from kymograph.claims.tuning import check_tuning_seeds
from kymograph.claims.world import differing, quantities
from kymograph.errors import KymographError
from kymograph.runs.arm_settings import ArmSettings
from kymograph.runs.files import make_directory
from kymograph.runs.history import SWEEP, History, code_free_key
from kymograph.runs.log import Log
from kymograph.runs.tuned import tuning_study
from kymograph.statistics.sign_flips import smallest_p
from kymograph.streams import fixed_seeds
from kymograph.studies.base import Study
from kymograph.studies.loading import registered_study
from kymograph.wording import counted

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
            Plan(chosen, Design((len(chosen),)), fields, study.arm_settings(fields), dict(grid or {}), rules),
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
        plans[name] = Plan(chosen, design, fields, settings_of_arms, tuned=rules)
        _check_unchanged(directory, name, plans[name], bool(seeds), bool(looks), settings is not None)
        _check_family(name, own_claims, plans[name], Log.read(directory))
    return [_register(directory, name, own_claims, plans[name]) for name, own_claims in by_study.items()]


def binding_plan(history: Log, study: str) -> Plan | None:
    """Returns the plan of the registration that binds the study's claims; None if there is none."""
    one = binding([*registrations(history, study), *registrations(history, OWN_STUDY)], study, history)
    return None if one is None else one.plan


def registered_plan(history: Log, study: str) -> Plan | None:
    """Returns the plan of the binding registration or, if all came after runs, of the first; None if there is none."""
    known = registrations(history, study)
    return binding_plan(history, study) or (known[0].plan if known else None)


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
    plan = binding_plan(Log.read(root), study.name)
    if plan is None:
        return ""
    asked_for = {
        (name, repr(value))
        for claim in claims_on_grid(study.claims(), plan.grid)
        for one in quantities(claim)
        for name, value in one.where.items()
    }
    registered, now = plan.settings_given(study.arm_settings({})), study.arm_settings(fields)
    found: dict[str, str] = {}
    for arm in arms:
        expected, settings = registered.of(arm), now.of(arm)
        for name in differing(settings, expected):
            if (name, repr(settings.get(name))) not in asked_for:
                found[name] = f"{name} {settings.get(name)} (registered: {expected.get(name, 'its default')})"
    return ", ".join(found.values())


def _register(root: Path, study: str, claims: Sequence[Claim], plan: Plan) -> Registration:
    history = Log.read(root)
    chosen = registered_plan(history, study) or plan
    _check_family(study, claims, chosen, history)
    return log_registration(root, study, claims, chosen)


def _check_unchanged(root: Path, study: str, plan: Plan, seeds: bool, looks: bool, settings: bool) -> None:
    """Raises if the stated seeds, looks or settings differ from an earlier registration."""
    before = registered_plan(Log.read(root), study)
    if before is None:
        return
    stated = [
        ("seeds", seeds and plan.seeds != before.seeds),
        ("looks", looks and plan.design != before.design),
        ("settings", settings and dict(plan.fields) != dict(before.fields)),
    ]
    for what, differs in stated:
        if differs:
            raise KymographError(
                f"claims about {study} are registered in {root} with other {what}, which cannot be changed; "
                "register in another directory"
            )


def _check_family(study: str, claims: Sequence[Claim], plan: Plan, history: Log) -> None:
    """Raises if the registered seeds cannot decide all the claims of a study at once."""
    known = family(registrations(history, study))
    findings = {(registration.key(claim), statement(claim.content)) for claim in claims if claim.kind is None}
    count = len(known | findings)
    strictest = min(claim.alpha for claim in claims)
    for look in plan.design.looks if plan.design.sequential else ():
        smallest, level = smallest_p(look.seeds), strictest * look.share
        if smallest * count > level:
            raise KymographError(
                f"the look at {look.seeds} seeds can decide nothing: the exact test reaches no p below {smallest:.2g}, "
                f"and the look may spend {level:.2g} on {counted(count, 'claim')}; leave it out"
            )
    smallest = plan.design.smallest_p
    if smallest * count > strictest:
        raise KymographError(
            f"{plan.design} cannot decide {all_claims(count, study)} together: the exact test reaches no p below "
            f"{smallest:.2g}, and {strictest:g} / {count} is needed; register fewer claims or more seeds"
        )


def all_claims(count: int, study: str) -> str:
    """Returns "the claim of STUDY" or "the N claims of STUDY"."""
    return f"the claim of {study}" if count == 1 else f"the {count:,} claims of {study}"
