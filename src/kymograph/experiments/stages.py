"""The stages of a sweep: computing missing runs, and tuning arms before they are evaluated."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph.claims.grid import Grid
from kymograph.claims.registration import binding_terms, register_study, registered_seeds
from kymograph.claims.tuning import Choice, check_tuning_seeds, choose, log_choices, logged_choices
from kymograph.errors import KymographError
from kymograph.io.writing import make_directory, one_at_a_time
from kymograph.rounding import number_text
from kymograph.runs.declaration import ArmSettings, Declaration, read_declaration, study_directory, write_declaration
from kymograph.runs.history import log_sweep
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec, slug
from kymograph.runs.store import Store
from kymograph.runs.tuned import Tuned, tuning_study
from kymograph.studies.study import Study
from kymograph.sweep.code_identity import CodeReference
from kymograph.sweep.compute import SUBMITTED, RunOutcome
from kymograph.sweep.engines.base import choose_engine, computes_elsewhere, make_options
from kymograph.sweep.heartbeat import remove_leftovers
from kymograph.sweep.orders import Stack, missing_stacks, orders_for
from kymograph.sweep.progress import Progress
from kymograph.wording import counted

MOST_SHOWN = 5


def failure_text(failures: Sequence[RunOutcome], store: Store, out: str | Path, debug: bool = False) -> str:
    """Returns why runs failed, each reason once with the first run that had it; with ``debug``, tracebacks as well.

    Args:
        failures: how the runs that failed ended.
        store: the runs of the sweep.
        out: their directory, as the user wrote it.
        debug: whether to show tracebacks. Runs that failed at the same spot show it once.
    """
    runs = {run.id: run for run in store.failed}
    order = {run: index for index, run in enumerate(runs)}
    lines: list[str] = []
    shown: dict[str, str] = {}
    reasons: dict[str, list[RunOutcome]] = {}
    for failure in failures:
        reasons.setdefault(failure.reason or "", []).append(failure)
    for reason, alike in list(reasons.items())[:MOST_SHOWN]:
        # Engines report in the order in which runs end; the run that is named should not depend on it.
        failure = min(alike, key=lambda one: order.get(one.run, len(order)))
        run = runs.get(failure.run)
        name = failure.run if run is None else f"{run.arm}, seed {run.seed}"
        others = f" and {counted(len(alike) - 1, 'other run')}" if len(alike) > 1 else ""
        lines.append(f"  failed: {name}{others}: {reason}")
        if debug:
            trace = None if run is None else run.traceback
            before = shown.setdefault(trace or "", name)
            if trace is None:
                lines.append("    no traceback: its process ended without reporting one")
            elif before != name:
                lines.append(f"    the traceback is that of {before}")
            else:
                lines += [f"    {line}" for line in trace.rstrip().splitlines()]
    if len(reasons) > MOST_SHOWN:
        lines.append(f"  and {len(failures) - sum(map(len, list(reasons.values())[:MOST_SHOWN]))} more")
    if lines and not debug:
        lines.append(f"  --debug prints tracebacks; `kymograph runs {out} --status failed` lists the runs")
    return "\n".join(lines)


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is computed; no number of a run depends on it."""

    out: str | Path = "runs"
    """The directory that holds the runs."""
    engine: str = "auto"
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


PartSources = Mapping[str, Mapping[str, str]]


def prepare(study: Study, specs: Sequence[RunSpec], options: SweepOptions) -> None:
    """Raises if something that the runs need is missing here; only prints a note if they are computed elsewhere."""
    elsewhere = computes_elsewhere(make_options(options.engine, options.engine_options))
    try:
        study.prepare(specs, None if options.data_dir is None else Path(options.data_dir))
    except KymographError as error:
        if not elsewhere:
            raise
        if not options.quiet:
            print(f"note: on this machine, {error}; the workers need it", file=sys.stderr)


def note_changed_code(root: Path, study: Study, missing: int, part_sources: PartSources) -> None:
    """Prints why runs are computed again, or are current again, if the study's code has changed since the last ones."""
    before = read_declaration(root / slug(study.name))
    if before is None:
        return
    known = {part: digest for parts in before.part_sources.values() for part, digest in parts.items()}
    now = {part: digest for parts in part_sources.values() for part, digest in parts.items()}
    edited = sorted(part for part, digest in now.items() if known.get(part, digest) != digest)
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


def stacks_of(study: Study, specs: Sequence[RunSpec], root: Path) -> list[Stack]:
    """Returns the runs as the stacks that train together; raises if a stored record is damaged."""
    return missing_stacks(specs, root, lambda spec: study.stack_key(spec.config), lambda spec: study.steps(spec.config),
                study.largest_stack)  # fmt: skip


def compute_missing(
    code: CodeReference, title: str, stacks: Sequence[Stack], options: SweepOptions
) -> list[RunOutcome]:
    """Computes the stacks that lack a run; returns how the missing runs ended, except for those that finished."""
    # The engine is chosen for the whole plan, so that a restart computes in the same way as the first start.
    engine = choose_engine(options.engine, len(stacks), options.workers, options.device, options.engine_options)
    left = [stack for stack in stacks if any(stack.missing)]
    orders = orders_for(code, left, Path(options.out), options.device, options.data_dir)
    wanted = {spec.id for stack in left for spec, absent in zip(stack.specs, stack.missing, strict=True) if absent}
    unfinished: list[RunOutcome] = []
    with Progress(title, len(wanted), sum(stack.steps for stack in left), options.quiet) as progress:
        for outcomes in engine.run(orders, progress):
            requested = [outcome for outcome in outcomes if outcome.run in wanted]
            unfinished += (outcome for outcome in requested if outcome.status != "finished")
            failed = sum(outcome.status == "failed" for outcome in requested)
            finished = sum(outcome.status == "finished" for outcome in requested)
            if finished or failed:
                progress.ended(finished, failed)
    return unfinished


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
    before = binding_terms(Log.read(root), study.name)
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
        reference_settings=ArmSettings(),
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


def tuning_lines(tuning: Tuning) -> list[str]:
    """Returns a line with the number of tuning runs, and a line per arm with the chosen value and its mean."""
    queued = f", {tuning.submitted} in the queue" if tuning.submitted else ""
    computed = tuning.computed - len(tuning.failures)
    counts = f"{computed} computed, {tuning.found} found, {len(tuning.failures)} failed{queued}"
    return [f"tuning: {counts}", *(f"  {_choice_text(one)}" for one in tuning.choices)]


def _choice_text(one: Choice) -> str:
    setting = one.tuned.setting
    if not one.usable:
        return f"{one.arm}: no {setting} can be chosen, because every value has a run that failed or diverged"
    mean = one.means[list(one.tuned.grid).index(one.value)]
    edge = one.tuned.edge(one.value)
    at_edge = f"; the {edge} of the grid, so claims about it will be INVALID" if edge else ""
    return f"{one.arm}: {setting} {one.value} ({one.tuned.best} mean {one.tuned.by}, {number_text(mean, 4)}){at_edge}"
