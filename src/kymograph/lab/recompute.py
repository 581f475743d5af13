"""Computing stored runs again, and comparing the results."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kymograph.errors import KymographError
from kymograph.lab.finding import Finding
from kymograph.runs.archive import Archive
from kymograph.runs.files import plain
from kymograph.runs.processes import temporary_directory
from kymograph.runs.provenance import hardware, versions
from kymograph.runs.record import RunResult
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import tuned_study
from kymograph.studies.base import Study
from kymograph.studies.loading import registered_study
from kymograph.sweep.compute import Workplace
from kymograph.sweep.devices import import_torch

TOLERANCE = 1e-3
"""The largest deviation, relative to a series' largest value, allowed on another machine or with other versions."""


def computed_again(archive: Archive, count: int, named: Mapping[str, Study], seed: int | None) -> list[Finding]:
    """Computes ``count`` randomly chosen runs again; returns how each compares with its record."""
    runs = list(archive.store.finished)
    chosen = random.Random(seed).sample(runs, min(count, len(runs)))
    owners = {run.id: tuned_study(run.study) or run.study for run in chosen}  # a study's code also makes tuning runs
    return [_compared(run, named.get(owners[run.id]) or registered_study(owners[run.id])) for run in chosen]


class _Silent:
    """A follower that shows nothing."""

    def tick(self, steps: int) -> None:
        """Ignores the steps."""

    def say(self, text: str) -> None:
        """Ignores the message."""


def _compared(run: StoredRun, study: Study | None) -> Finding:
    what = f"{run.study}, {run.arm}, seed {run.seed}, computed again"
    if study is None:
        return Finding(what, False, "its study's code is not here; name it with --study")
    try:
        with temporary_directory("verify") as directory, _threads(run.provenance.get("threads")):
            work = Workplace(str(run.provenance.get("device", "cpu")), _Silent(), Path(directory))
            (result,) = study.train([study.typed(run.spec)], work)
    except KymographError as error:
        return Finding(what, False, str(error))
    difference = _largest_difference(run, result)
    if difference == 0:
        return Finding(what, True, "the same bits")
    same_environment = run.provenance.get("versions") == versions() and run.provenance.get("hardware") == hardware()
    if same_environment:
        return Finding(
            what, False, f"off by {difference:.1e}, but must be bit-identical on the same machine and versions"
        )
    detail = f"off by {difference:.1e} on another machine or with other versions (at most {TOLERANCE:g} allowed)"
    return Finding(what, difference <= TOLERANCE, detail)


@contextlib.contextmanager
def _threads(count: Any) -> Iterator[None]:
    """Sets the number of torch threads to that of the run, because the order of summation depends on it."""
    torch = import_torch()
    before = torch.get_num_threads()
    if type(count) is int and 0 < count <= 4096:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _largest_difference(run: StoredRun, result: RunResult) -> float:
    """Returns the largest relative difference of any series or summary number; inf if something is missing or added."""
    pairs: list[tuple[Any, Any]] = []
    if run.series.keys() != result.series.keys() or run.summary.keys() != result.summary.keys():
        return math.inf
    for name, entry in run.series.items():
        other = result.series[name]
        if list(entry.sites or ()) != list(other.sites or ()):
            return math.inf
        pairs += [(entry.value, other.value), (entry.step, other.step)]
    stored, recomputed = plain(dict(run.summary)), plain(dict(result.summary))
    for name, value in stored.items():
        if all(isinstance(one, float | int) and not isinstance(one, bool) for one in (value, recomputed[name])):
            pairs.append((value, recomputed[name]))
        elif value != recomputed[name]:
            return math.inf
    return max((_relative(stored, other) for stored, other in pairs), default=0.0)


def _relative(stored: Any, other: Any) -> float:
    """Returns the largest difference over the first array's largest magnitude; inf if shapes or infinities differ."""
    first, second = (np.asarray(one, dtype=np.float64) for one in (stored, other))
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    if first.shape != second.shape:
        return math.inf
    known = np.isfinite(first)
    if (known != np.isfinite(second)).any() or not np.array_equal(first[~known], second[~known], equal_nan=True):
        return math.inf
    scale = float(np.abs(first[known]).max(initial=0.0)) or 1.0
    return float(np.abs(first[known] - second[known]).max(initial=0.0)) / scale
