"""Where the ended runs of a directory are, found with as few questions to the file system as can be."""

from __future__ import annotations

import os
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.runs.record import STATUS


def run_directories(root: Path) -> list[Path]:
    """Returns the directory of every ended run below ``root``, whole or damaged, in order.

    Runs are STUDY/RUN below an output directory, RUN below a study's own directory, or the directory itself.
    """
    if not root.is_dir():
        raise KymographError(f"there is no directory {root}; make one with `kymograph run STUDY --out {root}`")
    found: list[tuple[str, ...]] = [()] if has_ended(str(root)) else []
    for name in _visible_directories(str(root)):
        if has_ended(f"{root}/{name}"):
            found.append((name,))
            continue
        runs = _visible_directories(f"{root}/{name}")
        found += [(name, run) for run in runs if has_ended(f"{root}/{name}/{run}")]
    return [root.joinpath(*parts) for parts in sorted(found)]


def has_ended(directory: str) -> bool:
    """Says whether a run's directory says how the run ended."""
    return os.path.exists(f"{directory}/{STATUS}")


def _visible_directories(path: str) -> list[str]:
    """Returns the directories in ``path``; a hidden one is a record being written, or left behind by a kill."""
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
