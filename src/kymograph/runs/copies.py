"""Backup copies of runs inside a directory of runs, so that no run counts twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kymograph.foreign.files import real_path
from kymograph.runs.spec import slug
from kymograph.runs.stored import StoredRun
from kymograph.wording import counted

_ID = re.compile("[0-9a-f]{16}")


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
