"""Finds the ended runs of a directory with as few file-system calls as possible."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.foreign.files import entries, is_directory, is_directory_entry
from kymograph.foreign.writes import is_inside
from kymograph.runs.typed_record import STATUS


@dataclass(frozen=True)
class FoundRuns:
    """The directories of ended runs, and what could not be read."""

    directories: list[Path]
    unreadable: list[str]
    """One sentence per directory that may hold runs but cannot be read or lies outside."""


def find_runs(root: Path) -> FoundRuns:
    """Returns the directory of every ended run below ``root``, whole or damaged, sorted.

    Runs are STUDY/RUN below an output directory, RUN below a study's own directory, or the directory itself. A
    symbolic link is followed only if it leads below ``root``.
    """
    if not is_directory(root):
        raise KymographError(f"there is no directory {root}; make one with `kymograph run STUDY --out {root}`")
    found: list[tuple[str, ...]] = [()] if has_ended(str(root)) else []
    unreadable: list[str] = []
    try:
        names = _visible_directories(root, "", unreadable)
    except OSError as error:
        raise KymographError(f"cannot read {root}: {error.strerror}") from None
    for name in names:
        try:
            if has_ended(f"{root}/{name}"):
                found.append((name,))
                continue
            runs = _visible_directories(root, f"/{name}", unreadable)
            found += [(name, run) for run in runs if has_ended(f"{root}/{name}/{run}")]
        except OSError as error:
            unreadable.append(f"cannot read {name}: {error.strerror}")
    return FoundRuns([root.joinpath(*parts) for parts in sorted(found)], unreadable)


def has_ended(directory: str) -> bool:
    """Returns whether a run's directory has a status file; raises OSError if it cannot be accessed."""
    try:
        os.lstat(f"{directory}/{STATUS}")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _visible_directories(root: Path, inside: str, unreadable: list[str]) -> list[str]:
    """Returns the names of the visible subdirectories; a hidden one is a record being written, or left by a kill."""
    found = []
    for entry in entries(f"{root}{inside}"):
        if entry.name.startswith(".") or not is_directory_entry(entry):
            continue
        if entry.is_symlink() and not is_inside(entry.path, root):
            link = f"{inside}/{entry.name}".lstrip("/")
            unreadable.append(f"{link} is a symbolic link that leads outside {root} and is not followed")
        else:
            found.append(entry.name)
    return found
