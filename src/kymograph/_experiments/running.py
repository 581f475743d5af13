"""Running a study: ``kymograph run`` as a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kymograph._claims.grid import Grid, grid_points
from kymograph._claims.sweep_notes import notes_after, notes_before
from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._experiments.stages import (
    ComputeOptions,
    StageResult,
    TuningResult,
    check_tuned_settings_unset,
    compute_stage,
    declare_stage,
    note_changed_code,
    prepare_stage,
    rules_of,
    tune_arms,
)
from kymograph._io.documents import read_toml
from kymograph._io.files import is_file
from kymograph._runs.directory import Directory
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._streams import MAX_SEED, fixed_seeds
from kymograph._studies.loading import LoadedStudy, load_with_reference
from kymograph._studies.settings import fit_settings
from kymograph._studies.study import Study
from kymograph._sweep.code_loading import stop_while_loading
from kymograph._sweep.compute import check_device
from kymograph._sweep.engines.base import AUTO, check_engine

DEFAULT_SEEDS = 10


def run(
    study: str | Study[Any],
    seeds: Iterable[int] | None = None,
    *,
    n_seeds: int | None = None,
    arms: Sequence[str] | None = None,
    out: str | Path = "runs",
    engine: str = AUTO,
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

    >>> store = ky.run("warmup.py", n_seeds=3, lr=0.05, out="slower", engine="serial", quiet=True)
    >>> store.arms, store.seeds
    (('constant', 'warmup'), (42, 123, 456))

    Args:
        study: a registered study such as ``depth``, your own as ``file.py``, ``file.py:Name`` or ``module:Name``, or
            the study itself.
        seeds: the seeds; default: the first ``n_seeds`` of the fixed list.
        n_seeds: how many seeds of the fixed list, if ``seeds`` is not given; default: 10.
        arms: names or patterns such as ``extreme/*``; default: the study's default arms.
        out: the directory that holds the runs.
        engine: ``serial``, ``processes``, ``dask``, ``slurm``, or ``auto``: processes if there is work for several, and
            ``serial`` for a study of the program that is running, which a worker would have to run again.
        workers: how many processes; default: one per core, or one per accelerator.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        data_dir: the directory of data files that a study reads; default: the variable KYMOGRAPH_DATA.
        quiet: shows no progress.
        engine_options: the engine's own options, e.g. ``{"scheduler": "tcp://node0:8786"}``.
        grid: settings that are varied, e.g. ``{"lr": [0.1, 0.03]}``: every arm runs at every point, and every claim is
            made at every point, in one family.
        config: a TOML file of settings, which may also have ``seeds`` or ``n_seeds``, ``arms`` and a table ``[grid]``;
            arguments take precedence over the file.
        **fields: any field of the study's configuration, e.g. ``lr=0.05``.

    A run that fails is recorded with its reason and listed in ``store.failed``; the others continue.
    """
    options = ComputeOptions(out, engine, workers, device, data_dir, quiet, engine_options or {})
    request = SweepRequest(fields, grid or {}, None if seeds is None else tuple(seeds), n_seeds, tuple(arms or ()))
    stop_while_loading()
    loaded = load_with_reference(study)
    if config is not None:
        request = request.over(read_settings(config, loaded.study))
    return run_sweep(
        loaded, request.chosen_seeds, options, arms=request.arms, fields=request.fields, grid=request.grid
    ).store


@dataclass(frozen=True)
class SweepRequest:
    """Which runs of a study to compute; what is empty or None is left to the study."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Settings."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings that are varied."""
    seeds: tuple[int, ...] | None = None
    n_seeds: int | None = None
    arms: tuple[str, ...] = ()

    @property
    def chosen_seeds(self) -> tuple[int, ...]:
        """The seeds that are asked for, or the first of the fixed list."""
        return choose_seeds(self.seeds, self.n_seeds)

    def over(self, other: SweepRequest) -> SweepRequest:
        """Returns this request, with gaps filled from another one; where both have a setting, this one wins."""
        with_seeds = other if self.seeds is None and self.n_seeds is None else self
        return SweepRequest(
            {name: value for name, value in other.fields.items() if name not in self.grid} | dict(self.fields),
            {name: values for name, values in other.grid.items() if name not in self.fields} | dict(self.grid),
            with_seeds.seeds,
            with_seeds.n_seeds,
            self.arms or other.arms,
        )


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


def read_settings(path: str | Path, study: Study[Any]) -> SweepRequest:
    """Returns the runs of ``study`` that a TOML file asks for.

        lr = 0.05
        steps = 300
        arms = ["constant", "warmup"]
        n_seeds = 10                    # or seeds = [42, 123]

        [grid]
        width = [16, 64]

    Every name and type in the file is checked.
    """
    file = Path(path)
    if not is_file(file):
        raise KymographError(f"there is no settings file {file}")
    content = read_toml(file)
    try:
        return _request(content, study)
    except KymographError as error:
        raise KymographError(f"{file}: {error}") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_BESIDES_SETTINGS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "arms": (lambda value: isinstance(value, list) and all(isinstance(arm, str) for arm in value), "a list of strings"),
    "grid": (lambda value: isinstance(value, dict), "a table, [grid]"),
    "n_seeds": (_is_whole, "a whole number"),
    "seeds": (lambda value: isinstance(value, list) and all(map(_is_whole, value)), "a list of whole numbers"),
}
"""What a file may hold besides settings: a check of each, and its type in words."""


def _request(content: Mapping[str, Any], study: Study[Any]) -> SweepRequest:
    names = [*(field.name for field in fields(study.config_type) if field.init), *_BESIDES_SETTINGS]
    for name in content:
        if name not in names:
            raise KymographError(f"{study.name} has no setting {name!r}{did_you_mean(name, names)}")
    for name, (is_valid, kind) in _BESIDES_SETTINGS.items():
        if name in content and not is_valid(content[name]):
            raise KymographError(f"{name} must be {kind}, not {content[name]!r}")
    given = {name: value for name, value in content.items() if name not in _BESIDES_SETTINGS}
    grid: dict[str, list[Any]] = {}
    for name, values in content.get("grid", {}).items():
        if not isinstance(values, list):
            raise KymographError(
                f"the grid takes a list of values of {name}, e.g. {name} = [0.1, 0.03], not {values!r}"
            )
        grid[name] = [fit_settings(study.config_type, {name: value}, study.name)[name] for value in values]
    seeds = content.get("seeds")
    return SweepRequest(
        fit_settings(study.config_type, given, study.name),
        grid,
        None if seeds is None else tuple(seeds),
        content.get("n_seeds"),
        tuple(content.get("arms", ())),
    )


@dataclass(frozen=True, kw_only=True)
class SweepResult(StageResult):
    """The outcome of a sweep: the runs asked for, those that failed, and how many were computed now."""

    study: Study[Any]
    store: Store
    tuning: TuningResult | None = None
    """The outcome of tuning, if arms are tuned."""
    planned: frozenset[str] = frozenset()
    """The ids of the runs asked for, however they ended."""


def run_sweep(
    reference: str | Study[Any] | LoadedStudy,
    seeds: Sequence[int],
    options: ComputeOptions,
    *,
    arms: Sequence[str] | None = None,
    fields: Mapping[str, Any] | None = None,
    grid: Grid | None = None,
) -> SweepResult:
    """Computes the missing runs of a study, and returns all that were asked for.

    With a ``grid`` of settings, every arm runs at every point. Tuned arms are tuned first, on separate seeds, and run
    at the values that were chosen.
    """
    stop_while_loading()
    study, code = reference if isinstance(reference, LoadedStudy) else load_with_reference(reference)
    fields, grid = fields or {}, grid or {}
    points = [{**fields, **point} for point in _grid_points(grid, fields)]
    if not str(options.out):
        raise UsageError("the directory of the runs has no name; give one with --dir DIR")
    directory = Directory(options.out)
    root = directory.root
    check_engine(options.engine, options.workers)
    check_device(options.device)
    rules = rules_of(study, arms)
    check_tuned_settings_unset(rules, fields, grid)
    tuning = tune_arms(directory, study, code, rules, seeds, fields, options) if rules else None
    specs = [spec for point in points for spec in _evaluation_runs(study, seeds, arms, point, tuning)]
    if not specs:
        return SweepResult(study=study, store=Store([], root, directory), tuning=tuning)
    stacks = prepare_stage(directory, study, specs, options)
    part_sources = study.part_sources(specs)
    if not options.quiet:
        note_changed_code(directory, study, any(any(stack.missing) for stack in stacks), part_sources)
    declare_stage(directory, study, specs, list(dict.fromkeys(spec.seed for spec in specs)), fields, part_sources, grid)
    if not options.quiet:
        _print_notes(notes_before(directory, study, specs, points, grid))
    stage = compute_stage(directory, code, study.name, stacks, options, study.processes)
    store = Store.of_specs(directory, specs)
    if stage.computed and not options.quiet:
        _print_notes(notes_after(study, store.finished.runs))
    planned = frozenset(spec.id for spec in specs)
    return SweepResult(**vars(stage), study=study, store=store, tuning=tuning, planned=planned)


def _grid_points(grid: Grid, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the points of a grid; raises if one of its settings is also set, or has a value twice."""
    for name, values in grid.items():
        if name in fields:
            raise UsageError(f"{name} is both set and varied; drop --{name.replace('_', '-')} or the grid over it")
        if not values or len({repr(value) for value in values}) < len(values):
            raise UsageError(f"a grid needs different values of {name}, e.g. {name}=0.1,0.03")
    return grid_points(grid)


def _evaluation_runs(
    study: Study[Any],
    seeds: Sequence[int],
    arms: Sequence[str] | None,
    fields: Mapping[str, Any],
    tuning: TuningResult | None,
) -> list[RunSpec[Any]]:
    """Returns the runs of the evaluation; arms for which tuning has chosen no value, or not yet, have none."""
    if tuning is None:
        return study.specs(seeds, arms, fields)
    if not tuning.choices:
        return []
    barred = {choice.arm for choice in tuning.without_value}
    return [spec for spec in study.specs(seeds, arms, fields, tuning.chosen) if spec.arm not in barred]


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
