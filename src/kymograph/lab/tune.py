"""Tuning arms before they are evaluated: computing the tuning runs, and choosing a value from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims.grid import Grid
from kymograph.claims.tuning import Choice, check_tuning_seeds, choose, log_choices, logged_choices
from kymograph.errors import KymographError
from kymograph.lab.register import binding_plan, register_study, registered_seeds
from kymograph.lab.stage import SweepOptions, compute_missing, note_changed_code, prepare, stacks_of
from kymograph.runs.arm_settings import ArmSettings
from kymograph.runs.declaration import Declaration, study_directory, write_declaration
from kymograph.runs.files import make_directory, one_at_a_time
from kymograph.runs.history import log_sweep
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.runs.tuned import Tuned, tuning_study
from kymograph.studies.base import Study
from kymograph.sweep.code_reference import CodeReference
from kymograph.sweep.compute import SUBMITTED, RunOutcome
from kymograph.sweep.leftovers import remove_leftovers
from kymograph.sweep.plan import Stack


@dataclass(frozen=True)
class Tuning:
    """The outcome of tuning the arms of a study."""

    choices: tuple[Choice, ...] = ()
    """Empty while tuning runs wait in a cluster's queue."""
    computed: int = 0
    found: int = 0
    failures: tuple[RunOutcome, ...] = ()
    submitted: int = 0

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """The settings that were chosen, by arm."""
        return {one.arm: {one.tuned.setting: one.value} for one in self.choices if one.usable}

    @property
    def without_value(self) -> list[Choice]:
        """The arms for which no value could be chosen, which therefore cannot be evaluated."""
        return [one for one in self.choices if not one.usable]


def tune(
    study: Study,
    code: CodeReference,
    rules: Mapping[str, Tuned],
    seeds: Sequence[int],
    fields: Mapping[str, Any],
    options: SweepOptions,
) -> Tuning:
    """Computes the missing tuning runs of all arms as one sweep, then chooses and logs a value for each arm.

    Nothing is chosen while a run waits in a cluster's queue.
    """
    root, name = Path(options.out), tuning_study(study.name)
    before = binding_plan(Log.read(root), study.name)
    check_tuning_seeds(study.name, rules, {*registered_seeds(seeds), *(() if before is None else before.seeds)})
    specs = tuning_specs(study, rules, fields)
    prepare(study, specs, options)
    make_directory(root)
    directory, own_directory = study_directory(root, study.name), study_directory(root, name)
    every = stacks_of(study, specs, root)
    remove_leftovers(root, name, every)
    stacks = without_settled(every, settled_arms(root, study.name, rules, specs))
    missing = sum(sum(stack.missing) for stack in stacks)
    part_sources = study.part_sources(specs)
    if not options.quiet:
        note_changed_code(root, study, missing, part_sources)
    make_directory(directory, root)
    make_directory(own_directory, root)
    with one_at_a_time(root):
        register_study(root, study, seeds, fields)
        write_declaration(directory, study.declaration(), part_sources)
        write_declaration(own_directory, tuning_declaration(study), part_sources)
        log_sweep(root, specs)
    outcomes = compute_missing(code, name, stacks, options) if missing else []
    failures = tuple(outcome for outcome in outcomes if outcome.status == "failed")
    submitted = sum(outcome.status == SUBMITTED for outcome in outcomes)
    choices = () if submitted else choose_and_log(root, study.name, rules, specs)
    return Tuning(choices, missing - submitted, len(specs) - missing, failures, submitted)


def rules_of(study: Study, arms: Sequence[str] | None) -> dict[str, Tuned]:
    """Returns the tuning rules of the tuned ones among the named arms (default: the default arms)."""
    rules = study.tuning()
    return {arm.name: rules[arm.name] for arm in study.choose_arms(arms) if arm.name in rules} if rules else {}


def check_tuned_settings_unset(rules: Mapping[str, Tuned], fields: Mapping[str, Any], grid: Grid) -> None:
    """Raises if the user sets a setting that is tuned, or asks for a grid together with tuned arms."""
    for arm, rule in rules.items():
        if rule.setting in fields or rule.setting in grid:
            raise KymographError(f"{rule.setting} is tuned in the arm {arm!r}; drop --{rule.setting.replace('_', '-')}")
    if rules and grid:
        raise KymographError(
            "arms are tuned for one set of settings; drop --grid, and run other settings in another --out"
        )


def tuning_specs(study: Study, rules: Mapping[str, Tuned], fields: Mapping[str, Any]) -> list[RunSpec]:
    """Returns every tuning run: each tuned arm at each value of its grid, on its tuning seeds."""
    name = tuning_study(study.name)
    return [
        replace(spec, study=name)
        for arm, rule in rules.items()
        for value in rule.grid
        for spec in study.specs(rule.tuning_seeds, [_exactly(arm)], {**fields, rule.setting: value})
    ]


def _exactly(arm: str) -> str:
    """Returns the pattern that matches only the arm of this name."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in arm)


def tuning_declaration(study: Study) -> Declaration:
    """Returns the declaration stored with a study's tuning runs, so that they are shown like any study's runs."""
    own = study.declaration()
    rules = own.tuned.values()
    settings = " and ".join(dict.fromkeys(rule.setting for rule in rules))
    objectives = {rule.by: own.headlines.get(rule.by, rule.by) for rule in rules}
    return replace(
        own,
        name=tuning_study(own.name),
        question=f"Which {settings} suits each arm of {own.name}? (These runs take no part in its verdicts.)",
        headlines={**objectives, **own.headlines},
        tables={},
        script=ArmSettings(),
        tuned={},
    )


def settled_arms(root: Path, study: str, rules: Mapping[str, Tuned], specs: Sequence[RunSpec]) -> set[str]:
    """Returns the arms whose choice is logged and whose tuning runs are all stored.

    Their failed runs are not retried: the choice was made with these failures, and stands.
    """
    ids = _ids_by_arm(specs)
    logged = {(one.arm, one.runs) for one in logged_choices(Log.read(root), study)}
    candidates = [arm for arm in rules if (arm, ids[arm]) in logged]
    ended = {run.id for run in Store.of_specs(root, [spec for spec in specs if spec.arm in candidates])}
    return {arm for arm in candidates if set(ids[arm]) <= ended}


def without_settled(stacks: Sequence[Stack], settled: Collection[str]) -> list[Stack]:
    """Returns the stacks, with the runs of settled arms no longer marked as missing."""
    return [
        replace(stack, missing=tuple(
            absent and spec.arm not in settled for spec, absent in zip(stack.specs, stack.missing, strict=True)
        ))
        for stack in stacks
    ]  # fmt: skip


def choose_and_log(root: Path, study: str, rules: Mapping[str, Tuned], specs: Sequence[RunSpec]) -> tuple[Choice, ...]:
    """Chooses a value for every tuned arm from its stored runs, and logs it before anything is evaluated."""
    by_arm: dict[str, list[RunSpec]] = {}
    for spec in specs:
        by_arm.setdefault(spec.arm, []).append(spec)
    ended = {run.id: run for run in Store.of_specs(root, specs)}
    choices = [choose(arm, rule, by_arm[arm], ended) for arm, rule in rules.items()]
    with one_at_a_time(root):
        return tuple(log_choices(root, study, choices))


def _ids_by_arm(specs: Sequence[RunSpec]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for spec in specs:
        found.setdefault(spec.arm, []).append(spec.id)
    return {arm: tuple(sorted(ids)) for arm, ids in found.items()}
