"""Runs by name: study, arm and seed, plus the settings that tell apart runs which share these.

depth/residual/s42            the arm `residual` of `depth` at seed 42
depth/residual/s42,lr=0.03    the same, where it was run at several learning rates
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.history import History
from kymograph.runs.spec import RunSpec
from kymograph.runs.stored import StoredRun
from kymograph.runs.superseded import current_code

STATUSES = ("finished", "failed", "missing", "superseded", "abandoned", "damaged")
_SHORTEST_ID = 6


@dataclass(frozen=True)
class NamedRun:
    """One run of a directory: planned, ended or damaged."""

    study: str
    arm: str
    seed: int
    id: str
    settings: Mapping[str, Any]
    status: str
    """``finished``, ``failed``, ``missing`` (planned but not ended), ``superseded`` (finished by earlier code),
    ``abandoned`` or ``damaged``."""
    code: str = ""
    """The version or source of the study's code that made it."""
    reason: str | None = None
    """Why it failed, or what is damaged."""
    stored: StoredRun | None = None
    directory: Path | None = None
    suffix: str = ""
    """The settings that tell it apart from other runs of its arm and seed, e.g. ``,lr=0.03``."""

    @property
    def short_name(self) -> str:
        """The run's name within its study."""
        return f"{self.arm}/s{self.seed}{self.suffix}"

    @property
    def name(self) -> str:
        """The run's name within the directory."""
        return f"{self.study}/{self.short_name}"


def named_runs(archive: Archive) -> list[NamedRun]:
    """Returns every run of a directory with its name, sorted by study, arm, seed and settings."""
    abandoned = History(archive.log).abandoned
    codes = current_code([*(run.spec for run in archive.store), *archive.planned], archive.declarations)
    found = {run.id: _stored(run, codes[run.study].made(run.spec)) for run in archive.store}
    found |= {run.id: _damaged(run) for run in archive.damaged}
    for spec in archive.planned:
        if spec.id not in found and (codes[spec.study].made(spec) or spec.id in abandoned):
            found[spec.id] = _planned(spec, abandoned.get(spec.id))
    return sorted(
        _with_distinguishing_settings(list(found.values())),
        key=lambda run: (run.study, run.arm, run.seed, run.suffix, run.id),
    )


def match(runs: Sequence[NamedRun], name: str) -> list[NamedRun]:
    """Returns the runs that ``name`` refers to: a full name, one without study or settings, a pattern, or an id.

    match(runs, "depth/residual/s42")    by study, arm and seed
    match(runs, "residual/s42,lr=0.03")  as in the table of one study
    match(runs, "plain/*")               every seed of an arm
    match(runs, "3f9c2a")                the start of an id
    """
    exact = [run for run in runs if name in (run.name, run.short_name, run.id)]
    base = [run for run in runs if name in (run.name.removesuffix(run.suffix), run.short_name.removesuffix(run.suffix))]
    by_id = [run for run in runs if len(name) >= _SHORTEST_ID and run.id.startswith(name)]
    pattern = [run for run in runs if fnmatch.fnmatchcase(run.name, name) or fnmatch.fnmatchcase(run.short_name, name)]
    chosen = exact or base or by_id or pattern
    if not chosen:
        raise KymographError(f"there is no run {name!r}{_nearest(name, runs)}")
    return chosen


def _nearest(name: str, runs: Sequence[NamedRun]) -> str:
    """Returns a hint at the nearest name, or at how to list all names, which may be thousands."""
    known = {text for run in runs for text in (run.name, run.short_name, run.short_name.removesuffix(run.suffix))}
    hint = did_you_mean(name, known)
    return hint if hint.startswith("; did") else "; list them with `kymograph runs DIR`"


def _stored(run: StoredRun, current: bool) -> NamedRun:
    status = run.status if current or run.status == "failed" else "superseded"
    code = _code(run.spec)
    return NamedRun(
        run.study, run.arm, run.seed, run.id, run.config, status, code, run.reason, run, run.directory
    )  # fmt: skip


def _damaged(run: Damaged) -> NamedRun:
    return NamedRun(
        run.study, run.arm, run.seed, run.id, run.config or {}, "damaged", reason=run.reason, directory=run.directory
    )  # fmt: skip


def _planned(spec: RunSpec, reason: str | None) -> NamedRun:
    status = "missing" if reason is None else "abandoned"
    return NamedRun(spec.study, spec.arm, spec.seed, spec.id, spec.settings, status, _code(spec), reason)


def _code(spec: RunSpec) -> str:
    return f"version={spec.version}" if spec.source is None else f"source={spec.source}"


def _with_distinguishing_settings(runs: Sequence[NamedRun]) -> list[NamedRun]:
    """Returns the runs, each with the settings in which runs of its arm and seed differ, and its code if needed."""
    groups: dict[tuple[str, str, int], list[NamedRun]] = {}
    for run in runs:
        groups.setdefault((run.study, run.arm, run.seed), []).append(run)
    found: list[NamedRun] = []
    for group in groups.values():
        if len(group) == 1:
            found += group
            continue
        names = dict.fromkeys(name for run in group for name in run.settings)
        differing = [name for name in names if len({_text(run.settings.get(name)) for run in group}) > 1]
        words = [[f"{name}={_text(run.settings.get(name))}" for name in differing] for run in group]
        if len({tuple(one) for one in words}) < len(group):
            words = [[*one, run.code or run.id] for one, run in zip(words, group, strict=True)]
        for run, one in zip(group, words, strict=True):
            found.append(replace(run, suffix="".join(f",{word}" for word in one)))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
