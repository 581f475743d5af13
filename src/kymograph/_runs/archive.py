"""A directory of runs, read once: what ended, what is damaged, what was planned, and what the studies declare.

Judge, report, figures and export all start from an `Archive`, so that they agree on what is there and no file is read
or hashed twice.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._runs.declaration import Declaration
from kymograph._runs.history import is_output, planned_runs
from kymograph._runs.locating import copies_text, find_runs, without_copies
from kymograph._runs.log import Log
from kymograph._runs.spec import RunSpec, slug
from kymograph._runs.store import Store, in_order, read_declarations
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.thin_run import stored_run


@dataclass(frozen=True)
class Damaged:
    """A run whose record cannot be read; study, arm and seed come from its directory's name, or from the log."""

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
    """The studies' declarations, by name."""
    log: Log = field(default_factory=Log)
    """What was registered, planned, abandoned and declared, in order; empty for a study's own directory."""
    only: str | None = None
    """The one study to which the archive is restricted; None: all studies."""
    unreadable: Sequence[str] = ()
    """One sentence per subdirectory that is left out because it cannot be read or holds copies."""

    @staticmethod
    def open(root: str | Path) -> Archive:
        """Reads the directory; series and summaries are read, and their checksums checked, on first access."""
        path = Path(root)
        history = Log.read(path)
        planned = {run.id: run for run in planned_runs(path, history if is_output(path) else None)}
        runs: list[StoredRun] = []
        errors: dict[Path, KymographError] = {}
        located = find_runs(path)
        for directory in located.directories:
            try:
                runs.append(stored_run(directory))
            except KymographError as error:
                errors[directory] = error
        runs, copies = without_copies(runs, errors)
        damaged = []
        for directory in [directory for directory in errors if directory not in copies]:
            run = damaged_run(directory, errors[directory])
            spec = planned.get(run.id)
            if spec is not None:  # a directory's name does not always give study and arm
                run = replace(run, study=spec.study, arm=spec.arm, seed=spec.seed, config=spec.settings)
            damaged.append(run)
        declarations = read_declarations(path)
        return Archive(
            path,
            Store(in_order(runs, declarations), path),
            tuple(damaged),
            tuple(planned.values()),
            declarations,
            history,
            unreadable=(*located.unreadable, *copies_text(copies, path)),
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
                record = damaged_run(run.directory, error)
                damaged.append(replace(record, study=run.study, arm=run.arm, seed=run.seed, config=run.config))
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


def read_archive(directory: str | Path, study: str | None = None) -> Archive:
    """Reads a directory of runs in full, and keeps only the study of this name, if one is given.

    What is left out because it cannot be read is printed to standard error.
    """
    archive = Archive.open(directory).checked()
    _print_unread(archive)
    if study is None:
        return archive
    names = {study, slug(study)}  # a damaged run is known by its directory only
    _check_study(study, [*archive.store.studies, *(run.study for run in archive.planned)], directory)
    return replace(
        archive,
        store=archive.store.select(study),
        damaged=[run for run in archive.damaged if run.study in names],
        planned=[run for run in archive.planned if run.study == study],
        only=study,
    )


def select(
    directory: str | Path,
    study: str | None = None,
    arms: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
) -> Store:
    """Opens the runs of a directory and keeps those asked for, without superseded ones.

    Args:
        directory: the directory of the runs.
        study: only runs of the study of this name.
        arms: only these arms, by name or pattern such as ``extreme/*``.
        where: only runs with these settings, e.g. ``{"lr": 0.1}``; ``version`` and ``source`` are those of the study's
            code, and naming one keeps its runs even if they are superseded.
    """
    archive = Archive.open(directory).checked()
    store = archive.store
    if not store.runs:
        if archive.damaged:
            raise KymographError(archive.damaged[0].error)
        root = archive.root
        raise KymographError(f"{root} contains no completed run; make some with `kymograph run STUDY --out {root}`")
    _print_unread(archive)
    if study is not None:
        _check_study(study, store.studies, directory)
        store = store.select(study)
    if arms:
        chosen = [arm for arm in store.arms if any(fnmatch.fnmatchcase(arm, pattern) for pattern in arms)]
        if not chosen:
            raise UsageError(f"{directory} has no arm {arms[0]!r}{did_you_mean(arms[0], store.arms)}")
        store = store.select(arms=chosen)
    if where:
        store = store.where(**where)
    if where and {"version", "source"} & set(where):
        return store
    current = store.current()
    if not current.runs:
        raise KymographError(
            f"all {len(store)} runs asked for are superseded by newer code; run the study again, or choose earlier "
            "code with --where version=NUMBER or source=HASH"
        )
    if len(current) < len(store):
        left_out = f"{len(store) - len(current)} superseded runs, of older versions or earlier code of their studies,"
        print(f"{left_out} are left out; choose them with --where version=NUMBER or source=HASH", file=sys.stderr)
    return current


def _print_unread(archive: Archive) -> None:
    for reason in (*archive.unreadable, *(run.reason for run in archive.damaged)):
        print(f"left out: {reason}", file=sys.stderr)


def _check_study(study: str, stored: Sequence[str], directory: str | Path) -> None:
    if study not in stored:
        raise KymographError(f"{directory} has no runs of {study!r}{did_you_mean(study, stored)}")
