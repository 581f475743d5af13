"""Finds the ended runs of a directory with few file-system calls, and counts no backup copy twice."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kymograph._errors import KymographError
from kymograph._io.files import AnyPath, entries, is_directory, is_directory_entry, is_file, is_inside, real_path
from kymograph._runs.record import STATUS
from kymograph._runs.spec import slug
from kymograph._runs.stored_run import StoredRun
from kymograph._wording import counted

_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class LocatedRuns:
    """The directories of ended runs, and what could not be read."""

    directories: list[Path]
    unreadable: list[str]
    """One sentence per directory that may hold runs but cannot be read or lies outside."""


def find_runs(root: Path) -> LocatedRuns:
    """Returns the directory of every ended run below ``root``, whole or damaged, sorted.

    Runs are STUDY/RUN below an output directory, RUN below a study's own directory, or the directory itself. A
    symbolic link is followed only if it leads below ``root``.
    """
    check_directory(root)
    ended: list[tuple[str, ...]] = [()] if has_ended(str(root)) else []
    unreadable: list[str] = []
    try:
        names = _visible_directories(root, "", unreadable)
    except OSError as error:
        raise KymographError(f"cannot read {root}: {error.strerror}") from None
    for name in names:
        try:
            if has_ended(f"{root}/{name}"):
                ended.append((name,))
                continue
            runs = _visible_directories(root, f"/{name}", unreadable)
            ended += [(name, run) for run in runs if has_ended(f"{root}/{name}/{run}")]
        except OSError as error:
            unreadable.append(f"cannot read {name}: {error.strerror}")
    return LocatedRuns([root.joinpath(*parts) for parts in sorted(ended)], unreadable)


def check_directory(path: AnyPath) -> None:
    """Raises unless ``path`` is a directory."""
    if "\0" in str(path):
        raise KymographError(f"{str(path)!r} is not a valid file name")
    if is_file(path):
        raise KymographError(f"{path} is a file; name a directory of runs")
    if not is_directory(path):
        raise KymographError(f"there is no directory {path}; make one with `kymograph run STUDY --dir {path}`")


def has_ended(directory: str) -> bool:
    """Returns whether a run's directory has a status file; raises OSError if it cannot be accessed."""
    try:
        os.lstat(f"{directory}/{STATUS}")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _visible_directories(root: Path, inside: str, unreadable: list[str]) -> list[str]:
    """Returns the names of the visible subdirectories; a hidden one is a record being written, or left by a kill."""
    names = []
    for entry in entries(f"{root}{inside}"):
        if entry.name.startswith(".") or not is_directory_entry(entry):
            continue
        if entry.is_symlink() and not is_inside(entry.path, root):
            link = f"{inside}/{entry.name}".lstrip("/")
            unreadable.append(f"{link} is a symbolic link that leads outside {root} and is not followed")
        else:
            names.append(entry.name)
    return names


def without_copies(runs: Sequence[StoredRun], damaged: Iterable[Path]) -> tuple[list[StoredRun], set[Path]]:
    """Returns the runs without copies of others, and the directories of all copies, damaged ones included.

    Among several records of one run, the one at the path where its study stores it counts, even if it is damaged;
    otherwise the first. A directory whose name continues after a run's id, such as ``plain-s42-ID.bak``, is a copy.
    """
    kept: dict[str, StoredRun] = {}
    for run in sorted(runs, key=_is_elsewhere):  # stable
        kept.setdefault(run.id, run)
    homes = {run.id: run.directory for run in kept.values()}
    copies: set[Path] = set()
    for directory in damaged:
        ids = _ID.findall(directory.name)
        if any(i in homes for i in ids) and not (ids and directory.name.endswith(ids[-1])):
            copies.add(directory)
        elif ids and ids[-1] in kept and _is_elsewhere(kept[ids[-1]]):
            del kept[ids[-1]]  # the record itself is damaged, and a copy must not replace it
    copies |= {run.directory for run in runs if kept.get(run.id) is not run}
    return [run for run in runs if kept.get(run.id) is run], copies


def copies_text(copies: Iterable[Path], root: Path) -> list[str]:
    """Returns one sentence per directory that holds copies."""
    counts = Counter(path.parent.name if path.parent != root else root.name for path in copies)
    return [
        f"{directory} holds {counted(count, 'copy', 'copies')} of runs, which count only once"
        for directory, count in counts.items()
    ]


def _is_elsewhere(run: StoredRun) -> bool:
    name = run.spec.directory.rsplit("/", 1)[-1]
    return run.directory.name != name or real_path(run.directory).parent.name != slug(run.study)
