"""The runs that verdicts rest on, gathered from a directory or taken from a store."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.claims.log_problems import log_problems
from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.declaration import Declaration
from kymograph.runs.history import History
from kymograph.runs.log import Log
from kymograph.runs.planned import read_plan
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.studies.loading import declaration_of


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
    unfiltered: bool = True
    """Whether no run was left out by its settings or id."""
    unreadable: Sequence[str] = ()
    """Directories that may hold runs but could not be read, in words."""

    @property
    def studies(self) -> list[str]:
        """The studies to judge; for a whole directory, also those that were only planned."""
        runs: Iterator[StoredRun | Damaged | RunSpec] = iter((*self.finished, *self.invalid))
        named = [run.study for run in runs]
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


def gather(runs: Archive | Store | str | Path) -> JudgedRuns:
    """Returns the runs of a directory, which is read in full, or those of a store as they are."""
    if isinstance(runs, Store):
        planned = read_plan(runs.root) if runs.root is not None else []
        history = Log() if runs.root is None else Log.read(runs.root)
        return JudgedRuns(runs.root, [*runs.finished], planned, [*runs.failed], runs.declarations, history, whole=False)
    archive = runs if isinstance(runs, Archive) else Archive.open(runs).checked()
    store = archive.store
    invalid = [*store.failed, *archive.damaged]
    return JudgedRuns(
        archive.root,
        [*store.finished],
        archive.planned,
        invalid,
        archive.declarations,
        archive.log,
        whole=True,
        only=archive.only,
        unreadable=archive.unreadable,
    )


def in_order(evidence: JudgedRuns) -> list[Declaration]:
    """Returns the studies' declarations, in their declared order."""
    declarations = [declaration_of(name, evidence.declarations) for name in evidence.studies]
    return sorted(declarations, key=lambda one: (one.order, one.name))


def choose(evidence: JudgedRuns, where: dict[str, Any], only: Collection[str] | None) -> JudgedRuns:
    """Keeps the runs with the ids and settings asked for; a study that lacks a setting is not filtered by it."""
    known: dict[str, set[str]] = {}
    for study, names in (
        *((run.study, set(run.config)) for run in evidence.finished),
        *((run.study, set(run.settings)) for run in evidence.planned),
    ):
        known.setdefault(study, set()).update(names)
    for name in where:
        if not any(name in names for names in known.values()):
            raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, set().union(*known.values()))}")

    def fits(run: StoredRun | Damaged | RunSpec) -> bool:
        if only is not None and run.id not in only:
            return False
        config = run.config
        names = known.get(run.study, set())
        return config is None or all(config.get(name) == value for name, value in where.items() if name in names)

    return replace(
        evidence,
        unfiltered=not where and only is None,
        finished=[run for run in evidence.finished if fits(run)],
        planned=[run for run in evidence.planned if fits(run)],
        invalid=[run for run in evidence.invalid if fits(run)],
    )
