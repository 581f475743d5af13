"""A directory of runs, read once: what ended, what is damaged, what was planned, and what the studies declare.

Judge, report, figures and export start from here, so that no two of them disagree about what is there, and no file is
read or hashed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.copies import copies_text, without_copies
from kymograph.runs.declaration import Declaration
from kymograph.runs.finding import find_runs
from kymograph.runs.history import History
from kymograph.runs.log import Log
from kymograph.runs.planned import is_output, log_of, planned_runs
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store, in_order, read_declarations
from kymograph.runs.stored import StoredRun


@dataclass(frozen=True)
class Damaged:
    """A run whose record cannot be read; study, arm and seed are those that its directory is named after."""

    study: str
    arm: str
    seed: int
    id: str
    reason: str
    """Why, with the run's directory named as it lies among others."""
    config: Mapping[str, Any] | None = None
    """Its settings; None if they are lost."""
    error: str = ""
    """Why, with the path of the file."""

    @property
    def failure(self) -> str:
        """Why the run does not count, as a verdict says it."""
        return self.reason


@dataclass(frozen=True)
class Archive:
    """Everything that a directory of runs holds."""

    root: Path
    store: Store
    """Every ended run whose record can be read, in the order of study, arm (as declared) and seed."""
    damaged: Sequence[Damaged]
    planned: Sequence[RunSpec]
    declarations: Mapping[str, Declaration]
    """What the studies declare, by name; nothing for directories from before there were declarations."""
    log: Log = field(default_factory=Log)
    """What was registered, planned, abandoned and declared, in order; empty for directories from before the log."""
    only: str | None = None
    """The one study whose runs are kept here; None: all."""
    unreadable: Sequence[str] = ()
    """A sentence for every directory inside that may hold runs and is left out: it cannot be read, or holds copies."""

    @staticmethod
    def open(root: str | Path) -> Archive:
        """Reads the directory; the runs' series and summaries are read, and their checksums checked, when asked for."""
        path = Path(root)
        history = Log.read(path)
        planned = {run.id: run for run in planned_runs(path, History(history if is_output(path) else log_of(path)))}
        runs: list[StoredRun] = []
        errors: dict[Path, KymographError] = {}
        found = find_runs(path)
        for directory in found.directories:
            try:
                runs.append(StoredRun(directory))
            except KymographError as error:
                errors[directory] = error
        runs, copies = without_copies(runs, errors)
        damaged = [
            _as_planned(damaged_run(place, error), planned) for place, error in errors.items() if place not in copies
        ]
        declarations = read_declarations(path)
        store = Store(in_order(runs, declarations), path)
        return Archive(
            path,
            store,
            tuple(damaged),
            tuple(planned.values()),
            declarations,
            history,
            unreadable=(*found.unreadable, *copies_text(copies, path)),
        )

    def checked(self, series: bool = True) -> Archive:
        """Returns the archive with every record read to its last byte; what does not match its checksum is damaged.

        ``series``: whether the series are read too, which most of a directory is.
        """
        whole: list[StoredRun] = []
        damaged = list(self.damaged)
        for run in self.store:
            try:
                run.check(series=series)
                whole.append(run)
            except KymographError as error:
                found = damaged_run(run.directory, error)
                damaged.append(replace(found, study=run.study, arm=run.arm, seed=run.seed, config=run.config))
        return replace(self, store=Store(whole, self.root), damaged=tuple(damaged))

    @property
    def studies(self) -> list[str]:
        """Every study that has a run here, planned, ended or damaged."""
        runs = (*self.store, *self.damaged, *self.planned)
        return list(dict.fromkeys(run.study for run in runs))


def damaged_run(directory: Path, error: KymographError) -> Damaged:
    """Returns the damaged run that lies in ``directory``, named after where it lies."""
    arm, _, rest = directory.name.rpartition("-s")
    seed, _, run_id = rest.partition("-")
    reason = str(error).replace(str(directory), directory.name)
    number = int(seed) if seed.isdecimal() else -1
    return Damaged(directory.parent.name, arm.replace("__", "/"), number, run_id, reason, error=str(error))


def _as_planned(run: Damaged, planned: Mapping[str, RunSpec]) -> Damaged:
    """Returns the damaged run with what the plan knows of it: a directory's name may be an abbreviation."""
    spec = planned.get(run.id)
    return run if spec is None else replace(run, study=spec.study, arm=spec.arm, seed=spec.seed, config=spec.settings)
