"""Running a study: what the command line's ``run`` does, as a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.lab.judge import register
from kymograph.runs.files import make_directory
from kymograph.runs.ledger import note_plan
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.streams import MAX_SEED, fixed_seeds
from kymograph.studies.base import Study, load_study
from kymograph.sweep import engines
from kymograph.sweep.compute import Outcome, check_device
from kymograph.sweep.plan import plan
from kymograph.sweep.progress import Progress

DEFAULT_SEEDS = 10


@dataclass(frozen=True)
class Sweep:
    """What came of running a study: the runs asked for, those that failed, and how many were computed now."""

    store: Store
    failures: tuple[Outcome, ...]
    computed: int
    found: int


def run(
    study: str,
    seeds: Iterable[int] | None = None,
    *,
    n_seeds: int | None = None,
    arms: Sequence[str] | None = None,
    out: str | Path = "runs",
    engine: str = "serial",
    workers: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    **fields: Any,
) -> Store:
    """Runs a study and returns its runs as a store; runs already stored in ``out`` are not computed again.

    Args:
        study: ``clipping``, ``depth``, or a study of your own as ``module:name``.
        seeds: the seeds; or give ``n_seeds`` for the first so many of the fixed list (default 10).
        arms: names or patterns such as ``extreme/*``; default: the study's default arms.
        out: the directory that holds the runs.
        engine: ``serial``, ``processes``, or ``auto``: processes if there is work for several.
        workers: how many processes; default: one per core.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        quiet: shows no progress.
        **fields: any field of the study's configuration, e.g. ``lr=0.05``.

    A run that fails is recorded with its reason and listed in ``store.failed``; the others go on.
    """
    options = {
        "arms": arms,
        "out": out,
        "engine": engine,
        "workers": workers,
        "device": device,
        "quiet": quiet,
    }
    return sweep(load_study(study), study, choose_seeds(seeds, n_seeds), fields=fields, **options).store  # type: ignore[arg-type]


def choose_seeds(seeds: Iterable[int] | None, n_seeds: int | None) -> tuple[int, ...]:
    """Returns explicit seeds, or the first ``n_seeds`` of the fixed list; raises if the choice makes no sense."""
    if seeds is not None and n_seeds is not None:
        raise KymographError("give either seeds or n_seeds, not both")
    if seeds is None:
        count = DEFAULT_SEEDS if n_seeds is None else n_seeds
        if count < 1:
            raise KymographError(f"n_seeds must be at least 1, not {count}")
        return fixed_seeds(count)
    chosen = tuple(seeds)
    for seed in chosen:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            raise KymographError(f"a seed must be a whole number from 0 to {MAX_SEED}, not {seed!r}")
    if not chosen:
        raise KymographError("give at least one seed")
    if len(set(chosen)) < len(chosen):
        raise KymographError("a seed is listed twice; each seed is one replication")
    return chosen


def sweep(
    study: Study,
    reference: str,
    seeds: Sequence[int],
    *,
    arms: Sequence[str] | None,
    out: str | Path,
    engine: str,
    workers: int | None,
    device: str,
    quiet: bool,
    fields: dict[str, Any],
) -> Sweep:
    """Plans the runs, computes those that are missing, and returns all of them."""
    specs = study.specs(seeds, arms, fields)
    root = Path(out)
    engines.choose_engine(engine, 1, workers)
    check_device(device)
    study.prepare(specs)
    make_directory(root)

    def key(spec: RunSpec) -> tuple:
        return study.stack_key(spec.config)

    def steps(spec: RunSpec) -> int:
        return study.steps(spec.config)

    # The engine is chosen for the whole plan, so that a restart computes in the same way as the first start.
    whole = plan(specs, root, key, steps, study.largest_stack)
    register(root, study)
    note_plan(root, specs)
    stacks = [stack for stack in whole if any(stack.missing)]
    missing = sum(sum(stack.missing) for stack in stacks)
    failures: list[Outcome] = []
    if stacks:
        name, count = engines.choose_engine(engine, len(whole), workers)
        with Progress(study.name, missing, sum(stack.steps for stack in stacks), quiet) as progress:
            if name == "serial":
                ended = engines.serial(study, stacks, root, device, progress)
            else:
                ended = engines.processes(reference, stacks, root, device, progress, count)
            wanted = {
                spec.id for stack in stacks for spec, absent in zip(stack.specs, stack.missing, strict=True) if absent
            }
            for outcomes in ended:
                mine = [outcome for outcome in outcomes if outcome.run in wanted]
                failed = [outcome for outcome in mine if outcome.status == "failed"]
                failures += failed
                progress.ended(len(mine) - len(failed), len(failed))
    store = Store.of_specs(root, specs)
    return Sweep(store, tuple(failures), missing, len(specs) - missing)
