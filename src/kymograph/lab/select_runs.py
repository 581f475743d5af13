"""Selecting the stored runs that a command works on."""

from __future__ import annotations

import dataclasses
import fnmatch
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, UsageError, did_you_mean
from kymograph.runs.archive import Archive
from kymograph.runs.spec import slug
from kymograph.runs.store import Store


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
    store = _readable_runs(Archive.open(directory).checked())
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


def _readable_runs(archive: Archive) -> Store:
    """Returns the readable runs of an archive and prints the others; raises if there are none."""
    if not archive.store.runs:
        root = archive.root
        if archive.damaged:
            raise KymographError(archive.damaged[0].error)
        raise KymographError(f"{root} contains no completed run; make some with `kymograph run STUDY --out {root}`")
    name_unread(archive)
    return archive.store


def name_unread(archive: Archive) -> None:
    """Prints to standard error which runs and directories are left out because they cannot be read."""
    for reason in (*archive.unreadable, *(run.reason for run in archive.damaged)):
        print(f"left out: {reason}", file=sys.stderr)


def read_archive(directory: str | Path, study: str | None = None) -> Archive:
    """Reads a directory of runs in full, and keeps only the study of this name, if one is given."""
    archive = Archive.open(directory).checked()
    name_unread(archive)
    if study is None:
        return archive
    names = {study, slug(study)}  # a damaged run is known by its directory only
    _check_study(study, [*archive.store.studies, *(run.study for run in archive.planned)], directory)
    return dataclasses.replace(
        archive,
        store=archive.store.select(study),
        damaged=[run for run in archive.damaged if run.study in names],
        planned=[run for run in archive.planned if run.study == study],
        only=study,
    )


def _check_study(study: str, stored: Sequence[str], directory: str | Path) -> None:
    if study not in stored:
        raise KymographError(f"{directory} has no runs of {study!r}{did_you_mean(study, stored)}")
