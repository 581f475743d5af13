"""Running a study: ``kymograph run`` as a function.

[lab.settings_file] What to run, from a TOML file: settings, a grid, arms and seeds.

lr = 0.05
steps = 300
arms = ["constant", "warmup"]
n_seeds = 10                    # or seeds = [42, 123]

[grid]
width = [16, 64]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kymograph.claims.grid import Grid, grid_points
from kymograph.claims.registration import (
    changed_claims,
    numbers_that_no_run_has,
    planning_note,
    register_study,
    unregistered_settings,
)
from kymograph.errors import KymographError, UsageError, did_you_mean
from kymograph.experiments.stages import (
    PartSources,
    SweepOptions,
    Tuning,
    check_tuned_settings_unset,
    compute_missing,
    note_changed_code,
    prepare,
    rules_of,
    stacks_of,
    tune,
)
from kymograph.io.documents import read_toml
from kymograph.io.files import is_file
from kymograph.io.writing import make_directory, one_at_a_time
from kymograph.runs.declaration import study_directory, write_declaration
from kymograph.runs.history import log_sweep
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.runs.summaries import (
    HeadlineNumber,
    arm_headlines,
    by_arm_and_settings,
    collected_notes,
    same_in_all_seeds,
)
from kymograph.streams import MAX_SEED, fixed_seeds
from kymograph.studies.loading import load_study, load_with_reference
from kymograph.studies.settings import fit_settings
from kymograph.studies.study import Study
from kymograph.sweep.code_identity import stop_while_loading
from kymograph.sweep.compute import SUBMITTED, RunOutcome, check_device
from kymograph.sweep.engines.base import check_engine
from kymograph.sweep.heartbeat import remove_leftovers
from kymograph.wording import line_width


@dataclass(frozen=True)
class SweepChoice:
    """The runs to compute; what is empty or None is left to the study."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Settings."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings that are varied."""
    seeds: tuple[int, ...] | None = None
    n_seeds: int | None = None
    arms: tuple[str, ...] = ()

    def over(self, other: SweepChoice) -> SweepChoice:
        """Returns this choice, with gaps filled from another one; where both have a setting, this one wins."""
        has_seeds = self.seeds is not None or self.n_seeds is not None
        chosen = self if has_seeds else other
        return SweepChoice(
            {name: value for name, value in other.fields.items() if name not in self.grid} | dict(self.fields),
            {name: values for name, values in other.grid.items() if name not in self.fields} | dict(self.grid),
            chosen.seeds,
            chosen.n_seeds,
            self.arms or other.arms,
        )


def read_settings(path: str | Path, study: Study) -> SweepChoice:
    """Returns the runs of ``study`` that a TOML file asks for; every name and type in it is checked."""
    file = Path(path)
    if not is_file(file):
        raise KymographError(f"there is no settings file {file}")
    content = read_toml(file)
    try:
        return _choice(content, study)
    except KymographError as error:
        raise KymographError(f"{file}: {error}") from None


def _choice(content: Mapping[str, Any], study: Study) -> SweepChoice:
    settings = [one.name for one in fields(study.config_type) if one.init]
    for name in content:
        if name not in (*settings, *_CHECKS):
            raise KymographError(f"{study.name} has no setting {name!r}{did_you_mean(name, [*settings, *_CHECKS])}")
    for name, (is_right, kind) in _CHECKS.items():
        if name in content and not is_right(content[name]):
            raise KymographError(f"{name} must be {kind}, not {content[name]!r}")
    given = {name: value for name, value in content.items() if name not in _CHECKS}
    grid: dict[str, list[Any]] = {}
    for name, values in content.get("grid", {}).items():
        if not isinstance(values, list):
            raise KymographError(
                f"the grid takes a list of values of {name}, e.g. {name} = [0.1, 0.03], not {values!r}"
            )
        grid[name] = [fit_settings(study.config_type, {name: value}, study.name)[name] for value in values]
    seeds = content.get("seeds")
    return SweepChoice(
        fit_settings(study.config_type, given, study.name),
        grid,
        None if seeds is None else tuple(seeds),
        content.get("n_seeds"),
        tuple(content.get("arms", ())),
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: Mapping[str, tuple[Any, str]] = {
    "arms": (lambda found: isinstance(found, list) and all(isinstance(one, str) for one in found), "a list of strings"),
    "grid": (lambda found: isinstance(found, dict), "a table, [grid]"),
    "n_seeds": (_is_whole, "a whole number"),
    "seeds": (lambda found: isinstance(found, list) and all(map(_is_whole, found)), "a list of whole numbers"),
}
"""What a file may hold besides settings: a check of each, and its type in words."""


def headline_table(study: Study, store: Store) -> str:
    """Returns the study's headline numbers as text: mean over seeds and its 95 % interval, or of p-values the median.

    There is a row per arm, and per choice of settings where an arm's runs differ in them. If that is wider than the
    terminal, each row becomes a line per number instead.
    """
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for label, runs in by_arm_and_settings(store).items():
        found = arm_headlines([run.summary for run in runs], study.headlines, study.bounds)
        diverged = f" ({found.diverged} diverged)" if found.diverged else ""
        texts = [_cell(number, key in study.p_values) for key, number in found.numbers.items()]
        rows.append([label, f"{len(runs)}{diverged}", *texts])
    table = _columns([header, *rows])
    if max(map(len, table)) <= line_width():
        return "\n".join(table)
    blocks = []
    for arm, n, *cells in rows:
        numbers = _columns([["", *pair] for pair in zip(study.headlines.values(), cells, strict=True)])
        blocks.append("\n".join([f"{arm}, n {n}", *numbers]))
    return "\n".join(blocks)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows as lines of aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(number: HeadlineNumber, p_value: bool) -> str:
    """Returns the number as text, and of how many runs it is if some have none."""
    if number.n == 0:
        return "missing"
    return number.text(p_value=p_value) + (f" of {number.n}" if number.missing else "")


DEFAULT_SEEDS = 10


@dataclass(frozen=True)
class Sweep:
    """The outcome of running a study: the runs asked for, those that failed, and how many were computed now."""

    study: Study
    store: Store
    failures: tuple[RunOutcome, ...]
    computed: int
    found: int
    submitted: int = 0
    """How many runs were left in a cluster's queue."""
    tuning: Tuning | None = None
    """The outcome of tuning, if arms are tuned."""
    planned: frozenset[str] = frozenset()
    """The ids of the runs asked for, however they ended."""


def run(
    study: str | Study,
    seeds: Iterable[int] | None = None,
    *,
    n_seeds: int | None = None,
    arms: Sequence[str] | None = None,
    out: str | Path = "runs",
    engine: str = "serial",
    workers: int | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
    quiet: bool = False,
    engine_options: Mapping[str, Any] | None = None,
    grid: Grid | None = None,
    config: str | Path | None = None,
    **fields: Any,
) -> Store:
    """Runs a study and returns its runs as a store; runs already stored in ``out`` are not computed again.

    Args:
        study: a registered study such as ``depth``, your own as ``file.py``, ``file.py:Name`` or ``module:Name``, or
            the study itself.
        seeds: the seeds; default: the first ``n_seeds`` of the fixed list.
        n_seeds: how many seeds of the fixed list, if ``seeds`` is not given; default: 10.
        arms: names or patterns such as ``extreme/*``; default: the study's default arms.
        out: the directory that holds the runs.
        engine: ``serial``, ``processes``, ``dask``, ``slurm``, or ``auto``: processes if there is work for several.
        workers: how many processes; default: one per core, or one per accelerator.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        data_dir: the directory of CIFAR-10; default: the variable KYMOGRAPH_DATA.
        quiet: shows no progress.
        engine_options: the engine's own options, e.g. ``{"scheduler": "tcp://node0:8786"}``.
        grid: settings that are varied, e.g. ``{"lr": [0.1, 0.03]}``: every arm runs at every point, and every claim is
            made at every point, in one family.
        config: a TOML file of settings, which may also have ``seeds`` or ``n_seeds``, ``arms`` and a table ``[grid]``;
            arguments take precedence over the file.
        **fields: any field of the study's configuration, e.g. ``lr=0.05``.

    A run that fails is recorded with its reason and listed in ``store.failed``; the others continue.
    """
    options = SweepOptions(out, engine, workers, device, data_dir, quiet, engine_options or {})
    choice = SweepChoice(fields, grid or {}, None if seeds is None else tuple(seeds), n_seeds, tuple(arms or ()))
    if config is not None:
        choice = choice.over(read_settings(config, load_study(study) if isinstance(study, str) else study))
    return sweep_choice(study, choice, options).store


def sweep_choice(reference: str | Study, choice: SweepChoice, options: SweepOptions) -> Sweep:
    """Plans the chosen runs, computes the missing ones, and returns all of them."""
    seeds = choose_seeds(choice.seeds, choice.n_seeds)
    return sweep(reference, seeds, options, arms=choice.arms or None, fields=choice.fields, grid=choice.grid)


def choose_seeds(seeds: Iterable[int] | None, n_seeds: int | None) -> tuple[int, ...]:
    """Returns explicit seeds, or the first ``n_seeds`` of the fixed list; raises if the choice is invalid."""
    if seeds is not None and n_seeds is not None:
        raise UsageError("give seeds or n_seeds, not both")
    if seeds is None:
        count = DEFAULT_SEEDS if n_seeds is None else n_seeds
        if count < 1:
            raise UsageError(f"n_seeds must be at least 1, not {count}")
        return fixed_seeds(count)
    chosen = tuple(seeds)
    for seed in chosen:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            raise UsageError(f"a seed must be a whole number from 0 to {MAX_SEED}, not {seed!r}")
    if not chosen:
        raise UsageError("give at least one seed")
    if len(set(chosen)) < len(chosen):
        raise UsageError("a seed is listed twice; each seed is one replication")
    return chosen


def sweep(
    reference: str | Study,
    seeds: Sequence[int],
    options: SweepOptions,
    *,
    arms: Sequence[str] | None = None,
    fields: Mapping[str, Any] | None = None,
    grid: Grid | None = None,
) -> Sweep:
    """Plans the runs of the study that ``reference`` names, computes the missing ones, and returns all of them.

    With a ``grid`` of settings, every arm runs at every point. Tuned arms are tuned first, on separate seeds, and run
    at the values that were chosen.
    """
    stop_while_loading()
    study, code = load_with_reference(reference)
    points = _points(grid or {}, fields or {})
    if not str(options.out):
        raise UsageError("the directory of the runs has no name; give one with --out DIR")
    root = Path(options.out)
    check_engine(options.engine, options.workers)
    check_device(options.device)
    rules = rules_of(study, arms)
    check_tuned_settings_unset(rules, fields or {}, grid or {})
    tuning = tune(study, code, rules, seeds, fields or {}, options) if rules else None
    if tuning is not None and not tuning.choices:
        return Sweep(study, Store([], root), (), 0, 0, tuning=tuning)
    specs = [spec for point in points for spec in _specs(study, seeds, arms, {**(fields or {}), **point}, tuning)]
    if not specs:
        return Sweep(study, Store([], root), (), 0, 0, tuning=tuning)
    prepare(study, specs, options)
    make_directory(root)
    study_directory(root, study.name)
    # Damaged records stop the sweep here, before anything is written.
    stacks = stacks_of(study, specs, root)
    missing = sum(sum(stack.missing) for stack in stacks)
    part_sources = study.part_sources(specs)
    if not options.quiet:
        note_changed_code(root, study, missing, part_sources)
    remove_leftovers(root, study.name, stacks)
    declare_sweep(root, study, specs, fields or {}, part_sources, grid or {})
    if not options.quiet:
        for point in points:
            _note_other_settings(root, study, specs, {**(fields or {}), **point})
        _print_each(
            planning_note(study, {spec.arm for spec in specs}, len({spec.seed for spec in specs}), grid),
            changed_claims(root, study, grid),
        )
    outcomes = compute_missing(code, study.name, stacks, options) if missing else []
    failures = tuple(outcome for outcome in outcomes if outcome.status == "failed")
    submitted = sum(outcome.status == SUBMITTED for outcome in outcomes)
    store = Store.of_specs(root, specs)
    planned = frozenset(spec.id for spec in specs)
    done = Sweep(study, store, failures, missing - submitted, len(specs) - missing, submitted, tuning, planned)
    if done.computed and not options.quiet:
        _print_notes(done)
    return done


def _print_notes(done: Sweep) -> None:
    """Prints the runs' notes, which arms are the same in all seeds, and which numbers claims need but no run has."""
    finished = done.store.finished.runs
    _print_each(
        *collected_notes(finished),
        same_in_all_seeds(finished, done.study.headlines),
        *numbers_that_no_run_has(done.study.claims(), finished),
    )


def _print_each(*notes: str | None) -> None:
    for note in notes:
        if note:
            print(f"note: {note}", file=sys.stderr)


def _specs(
    study: Study, seeds: Sequence[int], arms: Sequence[str] | None, fields: Mapping[str, Any], tuning: Tuning | None
) -> list[RunSpec]:
    """Returns the runs of the evaluation; arms for which no value could be chosen have none."""
    if tuning is None:
        return study.specs(seeds, arms, fields)
    barred = {one.arm for one in tuning.without_value}
    return [spec for spec in study.specs(seeds, arms, fields, tuning.chosen) if spec.arm not in barred]


def _points(grid: Grid, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the points of a grid; raises if one of its settings is also set, or has a value twice."""
    for name, values in grid.items():
        if name in fields:
            raise UsageError(f"{name} is both set and varied; drop --{name.replace('_', '-')} or the grid over it")
        if not values or len({repr(value) for value in values}) < len(values):
            raise UsageError(f"a grid needs different values of {name}, e.g. {name}=0.1,0.03")
    return grid_points(grid)


def _note_other_settings(root: Path, study: Study, specs: Sequence[RunSpec], fields: Mapping[str, Any]) -> None:
    """Prints a note if the study's claims are registered for other settings than this sweep's."""
    other = unregistered_settings(root, study, {spec.arm for spec in specs}, fields)
    if other:
        print(
            f"note: the claims of {study.name} are not registered for {other}; such runs are judged only with --where, "
            "as post hoc (in another --out they would be registered)",
            file=sys.stderr,
        )


def declare_sweep(
    root: Path,
    study: Study,
    specs: Sequence[RunSpec],
    fields: Mapping[str, Any],
    part_sources: PartSources,
    grid: Grid | None = None,
) -> None:
    """Records the study's claims, its declaration and the planned runs before the first run starts."""
    directory = study_directory(root, study.name)
    make_directory(directory, root)
    # Under a lock, so that a sweep started at the same moment, on any host, sees what this one registers.
    with one_at_a_time(root):
        register_study(root, study, list(dict.fromkeys(spec.seed for spec in specs)), fields, grid or {})
        write_declaration(directory, study.declaration(), part_sources)
        log_sweep(root, specs)
