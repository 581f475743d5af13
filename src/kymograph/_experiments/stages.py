"""The stages of a sweep: arms are tuned on separate seeds, then evaluated; each stage computes what is missing."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph._claims.grid import Grid
from kymograph._claims.registration import binding_terms, register_study, registered_seeds
from kymograph._claims.tuning import Choice, check_tuning_seeds, choose, log_choices, logged_choices
from kymograph._errors import KymographError
from kymograph._io.writing import make_directory, one_at_a_time
from kymograph._runs.declaration import ArmSettings, Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.tuned import Tuned, tuning_study
from kymograph._studies.study import Study
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.compute import SUBMITTED, RunOutcome
from kymograph._sweep.engines.base import AUTO, choose_engine, computes_elsewhere, make_options
from kymograph._sweep.heartbeat import remove_leftovers
from kymograph._sweep.orders import Stack, missing_stacks, orders_for
from kymograph._sweep.progress import Progress

PartSources = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class ComputeOptions:
    """How and where runs are computed; no number of a run depends on it."""

    out: str | Path = "runs"
    """The directory that holds the runs."""
    engine: str = AUTO
    workers: int | None = None
    """How many processes; None: one per core, or one per accelerator."""
    device: str = "auto"
    data_dir: str | Path | None = None
    """The directory of data sets that are not embedded; None: the variable KYMOGRAPH_DATA."""
    quiet: bool = False
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's own options, e.g. ``{"partition": "gpu"}``."""
    debug: bool = False
    """Whether the tracebacks of failing runs are printed."""


@dataclass(frozen=True, kw_only=True)
class StageResult:
    """How many runs of a stage were computed now, found on disk or left in a cluster's queue, and those that failed."""

    computed: int = 0
    found: int = 0
    submitted: int = 0
    failures: tuple[RunOutcome, ...] = ()


def prepare_stage(
    directory: Directory, study: Study[Any], specs: Sequence[RunSpec[Any]], options: ComputeOptions
) -> list[Stack]:
    """Returns the runs of a stage as the stacks that train together, with the missing ones marked.

    Raises, before anything is written, if something that the runs need is missing here, or if a stored record is
    damaged. If the runs are computed elsewhere, what is missing here is only noted.
    """
    root = directory.root
    elsewhere = computes_elsewhere(make_options(options.engine, options.engine_options))
    try:
        study.prepare(specs, None if options.data_dir is None else Path(options.data_dir))
    except KymographError as error:
        if not elsewhere:
            raise
        if not options.quiet:
            print(f"note: on this machine, {error}; the workers need it", file=sys.stderr)
    make_directory(root)
    for name in dict.fromkeys([study.name, specs[0].study]):
        directory.declaration(name)  # raises if another study has its directory
    stacks = missing_stacks(
        specs,
        root,
        lambda spec: study.stack_key(spec.config),
        lambda spec: study.steps(spec.config),
        study.largest_stack,
    )
    remove_leftovers(root, specs[0].study, stacks)
    return stacks


def note_changed_code(directory: Directory, study: Study[Any], missing: bool, part_sources: PartSources) -> None:
    """Prints why runs are computed again, or are current again, if the study's code has changed since the last ones."""
    before = directory.declaration(study.name)
    if before is None:
        return
    earlier = {part: digest for parts in before.part_sources.values() for part, digest in parts.items()}
    current = {part: digest for parts in part_sources.values() for part, digest in parts.items()}
    edited = sorted(part for part, digest in current.items() if earlier.get(part, digest) != digest)
    if before.source != study.source:
        what = f"source {before.source} is now {study.source}"
    elif before.version != study.version:
        what = f"version {before.version} is now {study.version}"
    elif edited:
        what = f"the {' and the '.join(edited)} was edited"
    else:
        return
    effect = "its earlier runs are current again"
    if missing:
        effect = "its runs are computed again; those of the earlier code are kept and count as superseded"
    print(f"note: the code of {study.name} has changed ({what}), so {effect}", file=sys.stderr)


def declare_stage(
    directory: Directory,
    study: Study[Any],
    specs: Sequence[RunSpec[Any]],
    seeds: Sequence[int],
    fields: Mapping[str, Any],
    part_sources: PartSources,
    grid: Grid | None = None,
    declarations: Sequence[Declaration] = (),
) -> None:
    """Records the study's claims, its declaration and the planned runs before the first run starts.

    ``seeds`` are those of the evaluation; ``declarations`` are further ones, e.g. that of the tuning runs.
    """
    # Under a lock, so that a sweep started at the same moment, on any host, sees what this one registers.
    with one_at_a_time(directory.root):
        directory.log.refresh()
        register_study(directory.log, study, seeds, fields, grid)
        for declaration in (study.declaration(), *declarations):
            directory.declare(declaration, part_sources)
        directory.plan(specs)


def compute_stage(
    directory: Directory,
    code: CodeReference,
    title: str,
    stacks: Sequence[Stack],
    options: ComputeOptions,
    processes: int = 1,
) -> StageResult:
    """Computes the stacks that lack a run, each run with so many processes."""
    incomplete = [stack for stack in stacks if any(stack.missing)]
    wanted = {run for stack in incomplete for run in stack.missing_runs}
    total = sum(len(stack.specs) for stack in stacks)
    if not wanted:
        return StageResult(found=total)
    name = "serial" if options.engine == AUTO and code.is_running_program else options.engine
    # The engine is chosen for all stacks, so that a restart computes in the same way as the first start.
    engine = choose_engine(name, len(stacks), options.workers, options.device, options.engine_options, processes)
    heads = directory.log.heads
    orders = orders_for(code, incomplete, directory.root, heads, options.device, options.data_dir, processes)
    failures: list[RunOutcome] = []
    submitted = 0
    with Progress(title, len(wanted), sum(stack.steps for stack in incomplete), options.quiet) as progress:
        for outcomes in engine.run(orders, progress):
            requested = [outcome for outcome in outcomes if outcome.run in wanted]
            failed = [outcome for outcome in requested if outcome.status == "failed"]
            failures += failed
            submitted += sum(outcome.status == SUBMITTED for outcome in requested)
            finished = sum(outcome.status == "finished" for outcome in requested)
            if finished or failed:
                progress.ended(finished, len(failed))
    return StageResult(
        computed=len(wanted) - submitted,
        found=total - len(wanted),
        submitted=submitted,
        failures=tuple(failures),
    )


@dataclass(frozen=True, kw_only=True)
class TuningResult(StageResult):
    """The outcome of tuning the arms of a study."""

    choices: tuple[Choice, ...] = ()
    """Empty while tuning runs wait in a cluster's queue."""

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """The settings that were chosen, by arm."""
        return {choice.arm: {choice.tuned.setting: choice.value} for choice in self.choices if choice.usable}

    @property
    def without_value(self) -> list[Choice]:
        """The arms for which no value could be chosen, which therefore cannot be evaluated."""
        return [choice for choice in self.choices if not choice.usable]


def tune_arms(
    directory: Directory,
    study: Study[Any],
    code: CodeReference,
    rules: Mapping[str, Tuned],
    seeds: Sequence[int],
    fields: Mapping[str, Any],
    options: ComputeOptions,
) -> TuningResult:
    """Computes the missing tuning runs of all arms, then chooses and logs a value for each arm.

    Nothing is chosen while a run waits in a cluster's queue.
    """
    root, name = directory.root, tuning_study(study.name)
    registered = binding_terms(directory.log, study.name)
    taken = {*registered_seeds(seeds), *(() if registered is None else registered.seeds)}
    check_tuning_seeds(study.name, rules, taken)
    specs_of = {
        arm: [
            replace(spec, study=name)
            for value in rule.grid
            for spec in study.specs(rule.tuning_seeds, [_exactly(arm)], {**fields, rule.setting: value})
        ]
        for arm, rule in rules.items()
    }
    specs = [spec for of_arm in specs_of.values() for spec in of_arm]
    every_stack = prepare_stage(directory, study, specs, options)
    settled = _settled_arms(directory, study.name, specs_of)
    stacks = [
        replace(stack, missing=tuple(
            absent and spec.arm not in settled for spec, absent in zip(stack.specs, stack.missing, strict=True)
        ))
        for stack in every_stack
    ]  # fmt: skip
    part_sources = study.part_sources(specs)
    if not options.quiet:
        note_changed_code(directory, study, any(any(stack.missing) for stack in stacks), part_sources)
    declare_stage(directory, study, specs, seeds, fields, part_sources, declarations=[tuning_declaration(study)])
    stage = compute_stage(directory, code, name, stacks, options, study.processes)
    if stage.submitted:
        return TuningResult(**vars(stage))
    ended = {run.id: run for run in Store.of_specs(directory, specs)}
    choices = [choose(arm, rule, specs_of[arm], ended) for arm, rule in rules.items()]
    with one_at_a_time(root):  # before anything is evaluated
        directory.log.refresh()
        return TuningResult(**vars(stage), choices=tuple(log_choices(directory.log, study.name, choices)))


def rules_of(study: Study[Any], arms: Sequence[str] | None) -> dict[str, Tuned]:
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
            "arms are tuned for one set of settings; drop --grid, and run other settings in another directory"
        )


def tuning_declaration(study: Study[Any]) -> Declaration:
    """Returns the declaration stored with a study's tuning runs, so that they are shown like any study's runs."""
    declared = study.declaration()
    rules = declared.tuned.values()
    settings = " and ".join(dict.fromkeys(rule.setting for rule in rules))
    objectives = {rule.by: declared.headlines.get(rule.by, rule.by) for rule in rules}
    return replace(
        declared,
        name=tuning_study(declared.name),
        question=f"Which {settings} suits each arm of {declared.name}? (These runs take no part in its verdicts.)",
        headlines={**objectives, **declared.headlines},
        tables={},
        reference_settings=ArmSettings(),
        tuned={},
    )


def _exactly(arm: str) -> str:
    """Returns the pattern that matches only the arm of this name."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in arm)


def _settled_arms(directory: Directory, study: str, specs_of: Mapping[str, Sequence[RunSpec[Any]]]) -> Collection[str]:
    """Returns the arms whose choice is logged and whose tuning runs are all stored.

    Their failed runs are not retried: the choice was made with these failures, and stands.
    """
    logged = {(choice.arm, choice.runs) for choice in logged_choices(directory.log, study)}
    candidates = [arm for arm, specs in specs_of.items() if (arm, tuple(sorted(spec.id for spec in specs))) in logged]
    ended = {run.id for run in Store.of_specs(directory, [spec for arm in candidates for spec in specs_of[arm]])}
    return {arm for arm in candidates if all(spec.id in ended for spec in specs_of[arm])}
