"""Giving up planned runs, with a logged reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.runs.history import abandon
from kymograph.runs.planned import read_plan


def abandon_runs(
    root: str | Path,
    reason: str,
    study: str | None = None,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> int:
    """Logs that planned runs are given up, and why; returns how many.

    Args:
        root: the directory of the runs.
        reason: why, in a sentence; verdicts show it.
        study: only runs of this study.
        arms: only these arms, by name or pattern.
        seeds: only these seeds.
    """
    chosen = [
        run
        for run in read_plan(Path(root))
        if (study is None or run.study == study)
        and (not arms or any(fnmatch.fnmatchcase(run.arm, pattern) for pattern in arms))
        and (not seeds or run.seed in seeds)
    ]
    if not chosen:
        raise KymographError(f"no planned run in {root} matches this study, these arms and these seeds")
    return abandon(Path(root), chosen, reason)
