"""Runs by name: selected, as a table, and one of them in full.

[runs.names] Runs by name: study, arm and seed, plus the settings that tell apart runs which share these.

depth/residual/s42            the arm `residual` of `depth` at seed 42
depth/residual/s42,lr=0.03    the same, where it was run at several learning rates
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError, UsageError, did_you_mean
from kymograph.rounding import number_text
from kymograph.runs.archive import Archive, Damaged
from kymograph.runs.declaration import Declaration
from kymograph.runs.history import History, current_code
from kymograph.runs.spec import RunSpec, slug
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.runs.tables import is_number

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


WIDTH = 80


def choose_runs(
    runs: Sequence[NamedRun],
    *,
    study: str | None = None,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    status: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> list[NamedRun]:
    """Returns the runs that match a study, arms (names or patterns), seeds, a status and settings.

    A study, arm or setting that no run has is an error; an empty result is not.
    """
    chosen = list(runs)
    if study is not None:
        chosen = _named(chosen, "study", study, lambda run: run.study == study, {run.study for run in runs})
    for_arms: list[NamedRun] = []
    for arm in arms:
        known = {run.arm for run in chosen}
        for_arms += _named(chosen, "arm", arm, lambda run, arm=arm: fnmatch.fnmatchcase(run.arm, arm), known)
    if arms:
        kept = {run.id for run in for_arms}
        chosen = [run for run in chosen if run.id in kept]
    for name, value in (where or {}).items():
        known = {setting for run in chosen for setting in run.settings}
        if name not in known:
            raise KymographError(f"no run has a setting {name!r}{did_you_mean(name, known)}")
        chosen = [run for run in chosen if name in run.settings and run.settings[name] == value]
    if status is not None and status not in STATUSES:
        raise KymographError(f"there is no run status {status!r}{did_you_mean(status, STATUSES)}")
    return [run for run in chosen if (not seeds or run.seed in seeds) and status in (None, run.status)]


def _named(runs: Sequence[NamedRun], what: str, name: str, keep: Any, known: set[str]) -> list[NamedRun]:
    chosen = [run for run in runs if keep(run)]
    if not chosen:
        raise KymographError(f"no run has the {what} {name!r}{did_you_mean(name, known)}")
    return chosen


def run_table(runs: Sequence[NamedRun], declarations: Mapping[str, Declaration], width: int = WIDTH) -> str:
    """Returns the runs as text of at most ``width`` columns: by study, name, status and the first headline numbers."""
    blocks = []
    for study in dict.fromkeys(run.study for run in runs):
        study_runs = [run for run in runs if run.study == study]
        counts = {status: sum(run.status == status for run in study_runs) for status in STATUSES}
        total = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        declared = declarations.get(study)
        keys = list(declared.headlines) if declared is not None else []
        keys = keys or sorted({key for run in study_runs if run.stored for key in run.stored.summary})
        blocks.append("\n".join([_cut(f"{study}: {total}", width), *_lines(study_runs, keys, width)]))
    return "\n\n".join(blocks) if blocks else "no runs"


def _lines(runs: Sequence[NamedRun], keys: Sequence[str], width: int) -> list[str]:
    """Returns the lines of one study: as many columns of numbers as fit, or the reason why a run has none."""
    columns = [["run", *(run.short_name for run in runs)], ["status", *(run.status for run in runs)]]
    sizes = [max(map(len, column)) for column in columns]
    sizes[0] = min(sizes[0], width - sizes[1] - 4)
    for key in keys:
        column = [key, *(_number(run, key) for run in runs)]
        size = max(map(len, column))
        if sum(sizes) + 2 * len(sizes) + size + 2 > width:
            break
        columns.append(column)
        sizes.append(size)
    lines = []
    for index, row in enumerate(zip(*columns, strict=True)):
        cells = [_cut(cell, size).ljust(size) for cell, size in zip(row, sizes, strict=True)]
        reason = runs[index - 1].reason if index else None
        text = "  ".join(cells[:2] + ([reason] if reason is not None else cells[2:]))
        lines.append(_cut(f"  {text}".rstrip(), width))
    return lines


def _number(run: NamedRun, key: str) -> str:
    value = None if run.stored is None else run.stored.summary.get(key)
    return "" if value is None else number_text(value, 4) if is_number(value) else str(value)


def _cut(text: str, width: int) -> str:
    line = " ".join(text.splitlines()) if "\n" in text else text
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def run_facts(run: NamedRun, whole: bool = False) -> dict[str, Any]:
    """Returns what is known about a run, as JSON values; ``whole`` adds notes, series, provenance and traceback."""
    stored = run.stored
    facts: dict[str, Any] = {
        "name": run.name,
        "study": run.study,
        "arm": run.arm,
        "seed": run.seed,
        "id": run.id,
        "status": run.status,
        "directory": None if run.directory is None else str(run.directory),
        "settings": dict(run.settings),
        "summary": {} if stored is None else dict(stored.summary),
        "seconds": None if stored is None else stored.seconds,
        "reason": run.reason,
    }
    if whole:
        provenance = {} if stored is None else dict(stored.provenance)
        facts["notes"] = provenance.pop("notes", [])
        facts["series"] = [] if stored is None else sorted(stored.series)
        facts["provenance"] = provenance
        facts["traceback"] = None if stored is None else stored.traceback
    return facts


def run_text(run: NamedRun) -> str:
    """Returns one run as text: how it ended, settings, summary, series, notes, provenance, and why it failed."""
    facts = run_facts(run, whole=True)
    took = "" if facts["seconds"] is None else f" in {number_text(facts['seconds'])} s"
    lines = [f"{run.name}: {run.status}{took}", f"  id         {run.id}"]
    lines += [f"  directory  {run.directory}"] if run.directory is not None else []
    lines += [f"  reason     {run.reason}"] if run.reason is not None else []
    for title in ("settings", "summary"):
        lines += _section(title, facts[title])
    if facts["series"]:
        names = textwrap.wrap(", ".join(facts["series"]), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
        lines += ["", "series", *(f"  {line}" for line in names)]
    lines += ["", "notes", *(f"  {note}" for note in facts["notes"])] if facts["notes"] else []
    lines += _section("provenance", facts["provenance"])
    lines += ["", facts["traceback"].rstrip()] if facts["traceback"] else []
    return "\n".join(lines)


def _section(title: str, facts: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a titled list of names and values; none if it is empty."""
    size = max(map(len, facts), default=0)
    return ["", title, *(f"  {key:<{size}}  {_shown(value)}" for key, value in facts.items())] if facts else []


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(one)}" for key, one in value.items())
    return "missing" if value is None else str(value)
