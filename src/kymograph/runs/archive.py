"""A directory of runs, read once: what ended, what is damaged, what was planned, and what the studies declare.

[runs.archive] A directory of runs, read once: what ended, what is damaged, what was planned, and what the studies declare.

Judge, report, figures and export all start from an `Archive`, so that they agree on what is there and no file is read
or hashed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.declaration import Declaration
from kymograph.runs.history import History, is_output, log_of, planned_runs
from kymograph.runs.locating import copies_text, find_runs, without_copies
from kymograph.runs.log import Log
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store, in_order, read_declarations
from kymograph.runs.stored import StoredRun


@dataclass(frozen=True)
class Damaged:
    """A run whose record cannot be read; study, arm and seed come from its directory's name, or from the plan."""

    study: str
    arm: str
    seed: int
    id: str
    reason: str
    """What is wrong, naming the run's directory without its path."""
    config: Mapping[str, Any] | None = None
    """Its settings; None if they are lost."""
    error: str = ""
    """What is wrong, with the full path of the file."""
    directory: Path | None = None

    @property
    def failure(self) -> str:
        """Why the run does not count, as worded in a verdict."""
        return self.reason


@dataclass(frozen=True)
class Archive:
    """Everything that a directory of runs holds."""

    root: Path
    store: Store
    """Every ended run whose record can be read, sorted by study, arm (as declared) and seed."""
    damaged: Sequence[Damaged]
    planned: Sequence[RunSpec]
    declarations: Mapping[str, Declaration]
    """The studies' declarations, by name; empty for directories that predate declarations."""
    log: Log = field(default_factory=Log)
    """What was registered, planned, abandoned and declared, in order; empty for directories that predate the log."""
    only: str | None = None
    """The one study to which the archive is restricted; None: all studies."""
    unreadable: Sequence[str] = ()
    """One sentence per subdirectory that is left out because it cannot be read or holds copies."""

    @staticmethod
    def open(root: str | Path) -> Archive:
        """Reads the directory; series and summaries are read, and their checksums checked, on first access."""
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
            _as_planned(damaged_run(directory, error), planned)
            for directory, error in errors.items()
            if directory not in copies
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
        """Returns the archive with every record read in full; runs that do not match their checksums become damaged.

        ``series``: whether to read the series too, which make up most of a directory.
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
        """Every study with a planned, ended or damaged run here."""
        runs = (*self.store, *self.damaged, *self.planned)
        return list(dict.fromkeys(run.study for run in runs))


def damaged_run(directory: Path, error: KymographError) -> Damaged:
    """Returns the damaged run in ``directory``, with study, arm, seed and id parsed from its path."""
    arm, _, rest = directory.name.rpartition("-s")
    seed, _, run_id = rest.partition("-")
    reason = str(error).replace(str(directory), directory.name)
    number = int(seed) if seed.isdecimal() else -1
    return Damaged(
        directory.parent.name, arm.replace("__", "/"), number, run_id, reason, error=str(error), directory=directory
    )


def _as_planned(run: Damaged, planned: Mapping[str, RunSpec]) -> Damaged:
    """Returns the damaged run as the plan describes it: a directory's name does not always give study and arm."""
    spec = planned.get(run.id)
    return run if spec is None else replace(run, study=spec.study, arm=spec.arm, seed=spec.seed, config=spec.settings)
