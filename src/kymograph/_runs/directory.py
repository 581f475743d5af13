"""A directory of runs, read once: its log, what its studies declare, what ended and what is damaged."""

from __future__ import annotations

import copy
import fnmatch
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError, UsageError, did_you_mean
from kymograph._io.files import Stamp, real_path, stamp_of
from kymograph._io.writing import make_directory
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import (
    Declaration,
    check_same_study,
    read_declaration,
    study_directory,
    write_declaration,
)
from kymograph._runs.history import ABANDONED, REINSTATED, REPLACED, SWEEP, History, declaration_digest
from kymograph._runs.locating import copies_text, find_runs, without_copies
from kymograph._runs.log import DIRECTORY as LOG
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
class _Contents:
    """The ended runs of a directory, as found on disk."""

    runs: Sequence[StoredRun]
    damaged: Sequence[Damaged]
    unreadable: Sequence[str]


class Directory:
    """A directory of runs: its log, its studies' declarations and its runs, each read once, when first asked for.

        directory = Directory("runs")
        directory.log.heads, directory.history.planned, directory.declarations["depth"], directory.store

    A command makes one and hands it on, so that everything in it agrees on what is there, and no file is read or hashed
    twice. What this process appends to the log is in `log` and `history` at once.
    """

    only: str | None = None
    """The one study to which the directory is restricted; None: all studies."""
    whole = True
    """Whether everything in it is there to be judged; False: its runs are those of a store, which may be a choice."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._declared: dict[Path, tuple[Stamp | None, Declaration | None]] = {}

    @staticmethod
    def of(directory: Directory | str | Path) -> Directory:
        """Returns the directory itself, or that at a path."""
        return directory if isinstance(directory, Directory) else Directory(directory)

    @staticmethod
    def holding(store: Store) -> Directory:
        """Returns the directory of a store as if it held these runs alone; if there is none, its log is empty."""
        known, chosen = store.directory, Directory(store.root or Path())
        chosen.log = Log() if known is None else known.log
        chosen.history = History(chosen.log) if known is None else known.history
        chosen.planned = () if known is None else known.planned
        chosen.declarations = store.declarations
        chosen.store, chosen.damaged, chosen.unreadable, chosen.whole = store, (), (), False
        return chosen

    # What is there

    @functools.cached_property
    def log(self) -> Log:
        """What was registered, planned, abandoned and declared, in order; empty for a study's own directory."""
        return Log.read(self.root)

    @functools.cached_property
    def history(self) -> History:
        """What the log says about runs."""
        return History(self.log)

    @functools.cached_property
    def covering_log(self) -> Log:
        """The log that covers the runs; for a study's own directory, the one next to it."""
        is_output = (self.root / LOG).is_dir() or not (real_path(self.root).parent / LOG).is_dir()
        return self.log if is_output else Log.read(real_path(self.root).parent)

    @functools.cached_property
    def covering_history(self) -> History:
        """What the covering log says about runs."""
        return self.history if self.covering_log is self.log else History(self.covering_log)

    @functools.cached_property
    def planned(self) -> Sequence[RunSpec]:
        """Every run ever planned here."""
        runs = self.covering_history.planned.values()
        if self.covering_log is self.log:
            return tuple(runs)
        own = real_path(self.root).name
        return tuple(run for run in runs if slug(run.study) == own)

    @functools.cached_property
    def declarations(self) -> Mapping[str, Declaration]:
        """The studies' declarations, by name."""
        return read_declarations(self.root)

    def declaration(self, study: str) -> Declaration | None:
        """Returns the declaration of one study; None if there is none. Its file is read again only if it changed.

        Raises if a link leads the study's directory outside, or if it is that of another study.
        """
        path = study_directory(self.root, study)
        declared = self._declaration_in(path)
        check_same_study(path, declared, study)
        return declared

    def _declaration_in(self, path: Path) -> Declaration | None:
        stamp = stamp_of(path / DECLARATION)
        if path not in self._declared or self._declared[path][0] != stamp:
            self._declared[path] = stamp, None if stamp is None else read_declaration(path)
        return self._declared[path][1]

    @functools.cached_property
    def _contents(self) -> _Contents:
        runs: list[StoredRun] = []
        errors: dict[Path, KymographError] = {}
        located = find_runs(self.root)
        for directory in located.directories:
            try:
                runs.append(stored_run(directory))
            except KymographError as error:
                errors[directory] = error
        runs, copies = without_copies(runs, errors)
        planned = {run.id: run for run in self.planned}
        damaged = []
        for directory in [directory for directory in errors if directory not in copies]:
            run = damaged_run(directory, errors[directory])
            spec = planned.get(run.id)
            if spec is not None:  # a directory's name does not always give study and arm
                run = replace(run, study=spec.study, arm=spec.arm, seed=spec.seed, config=spec.settings)
            damaged.append(run)
        unreadable = (*located.unreadable, *copies_text(copies, self.root))
        return _Contents(in_order(runs, self.declarations), damaged, unreadable)

    @functools.cached_property
    def store(self) -> Store:
        """Every ended run whose record can be read, sorted by study, arm (as declared) and seed.

        Series and summaries are read, and their checksums checked, on first access.
        """
        return Store(self._contents.runs, self.root, self)

    @functools.cached_property
    def damaged(self) -> Sequence[Damaged]:
        """The runs whose records cannot be read."""
        return tuple(self._contents.damaged)

    @functools.cached_property
    def unreadable(self) -> Sequence[str]:
        """One sentence per subdirectory that is left out because it cannot be read or holds copies."""
        return tuple(self._contents.unreadable)

    @property
    def studies(self) -> list[str]:
        """Every study with a planned, ended or damaged run here."""
        runs = (*self.store, *self.damaged, *self.planned)
        return list(dict.fromkeys(run.study for run in runs))

    def without_entries(self, runs: Iterable[StoredRun]) -> list[StoredRun]:
        """Returns the runs that refer to entries of the log which are not there: it is missing, or was cut off."""
        return [run for run in runs if any(head not in self.log.entries for head in run.log_heads or ())]

    def checked(self, series: bool = True) -> Directory:
        """Reads every record in full; runs that do not match their checksums become damaged. Returns the directory.

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
        self.store, self.damaged = Store(whole, self.root, self), tuple(damaged)
        return self

    def restricted_to(self, study: str) -> Directory:
        """Returns the directory as if it held one study alone; raises if it has no runs of it."""
        names = {study, slug(study)}  # a damaged run is known by its directory only
        _check_study(study, [*self.store.studies, *(run.study for run in self.planned)], self.root)
        chosen = copy.copy(self)
        chosen.only = study
        chosen.store = self.store.select(study)
        chosen.damaged = tuple(run for run in self.damaged if run.study in names)
        chosen.planned = tuple(run for run in self.planned if run.study == study)
        return chosen

    # What is added

    def declare(self, declaration: Declaration, part_sources: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Writes what a study declares, unless it is there already; ``part_sources`` as in `write_declaration`."""
        path = study_directory(self.root, declaration.name)
        make_directory(path, self.root)
        write_declaration(path, declaration, part_sources, self._declaration_in)

    def plan(self, specs: Sequence[RunSpec]) -> None:
        """Logs the runs of a sweep and their study's declaration, unless both are logged already."""
        first = specs[0]
        declared = declaration_digest(self.root / slug(first.study))
        fresh = [spec for spec in specs if spec.id not in self.history.planned]
        if not fresh and declared in self.history.declarations(first.study):
            return
        groups: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        for spec in fresh:
            key = (spec.arm, spec.settings_text, spec.source)
            if key not in groups:
                source = (
                    {} if spec.source == first.source else {"source": spec.source}
                )  # some arms use users' own parts
                groups[key] = {"arm": spec.arm, "config": spec.settings, "seeds": [], **source}
            groups[key]["seeds"].append(spec.seed)
        content = {"study": first.study, "version": first.version, "source": first.source, "declaration": declared,
                   "runs": list(groups.values())}  # fmt: skip
        self.log.append(SWEEP, content)

    def abandon(self, runs: Sequence[str], finished: Sequence[str], reason: str) -> None:
        """Logs that the runs with these ids were abandoned, and why; ``finished`` are those among them with results."""
        _check_reason(reason, "abandoned", "the machine was needed elsewhere")
        if runs:
            self.log.append(ABANDONED, {"runs": list(runs), "finished": list(finished), "reason": reason.strip()})

    def reinstate(self, runs: Sequence[str], reason: str) -> None:
        """Logs that the abandoned runs with these ids were taken back, and why."""
        _check_reason(reason, "taken back", "the machine is free again")
        self.log.append(REINSTATED, {"runs": list(runs), "reason": reason.strip()})

    def replacing(self, spec: RunSpec) -> None:
        """Logs that a finished run is about to be recorded again."""
        self.log.append(REPLACED, {"run": spec.id, "study": spec.study, "arm": spec.arm, "seed": spec.seed})


def _check_reason(reason: str, what: str, example: str) -> None:
    if not any(character.isalnum() for character in reason):
        raise KymographError(f"say why the runs are {what}, e.g. --reason '{example}'")


def damaged_run(directory: Path, error: KymographError) -> Damaged:
    """Returns the damaged run in ``directory``, with study, arm, seed and id parsed from its path."""
    arm, _, rest = directory.name.rpartition("-s")
    seed, _, run_id = rest.partition("-")
    reason = str(error).replace(str(directory), directory.name)
    number = int(seed) if seed.isdecimal() else -1
    return Damaged(
        directory.parent.name, arm.replace("__", "/"), number, run_id, reason, error=str(error), directory=directory
    )


def read_directory(root: str | Path, study: str | None = None) -> Directory:
    """Reads a directory of runs in full, and keeps only the study of this name, if one is given.

    What is left out because it cannot be read is printed to standard error.
    """
    directory = Directory(root).checked()
    _print_unread(directory)
    return directory if study is None else directory.restricted_to(study)


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
    read = Directory(directory).checked()
    store = read.store
    if not store.runs:
        if read.damaged:
            raise KymographError(read.damaged[0].error)
        root = read.root
        raise KymographError(f"{root} contains no completed run; make some with `kymograph run STUDY --dir {root}`")
    _print_unread(read)
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


def _print_unread(directory: Directory) -> None:
    for reason in (*directory.unreadable, *(run.reason for run in directory.damaged)):
        print(f"left out: {reason}", file=sys.stderr)


def _check_study(study: str, stored: Sequence[str], directory: str | Path) -> None:
    if study not in stored:
        raise KymographError(f"{directory} has no runs of {study!r}{did_you_mean(study, stored)}")
