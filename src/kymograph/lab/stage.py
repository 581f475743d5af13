"""What every stage of a sweep does: check that its runs can be computed, note changed code, compute missing runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.declaration import read_declaration
from kymograph.runs.spec import RunSpec, slug
from kymograph.studies.base import Study
from kymograph.sweep.code_reference import CodeReference
from kymograph.sweep.compute import RunOutcome
from kymograph.sweep.engines.base import choose_engine, computes_elsewhere, make_options
from kymograph.sweep.orders import orders_for
from kymograph.sweep.plan import Stack, plan
from kymograph.sweep.progress import Progress


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
    return plan(specs, root, lambda spec: study.stack_key(spec.config), lambda spec: study.steps(spec.config),
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
