"""Runs by name: every run of a directory, chosen by name or settings, as a table, and one of them in full.

A name is study, arm and seed, plus the settings that tell apart runs which share these:

    depth/residual/s42            the arm `residual` of `depth` at seed 42
    depth/residual/s42,lr=0.03    the same, where it was run at several learning rates
"""

from __future__ import annotations

import fnmatch
import json
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError, did_you_mean
from kymograph._io.writing import plain
from kymograph._rounding import number_text
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.history import code_words, current_code
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import is_number

STATUSES = ("finished", "diverged", "failed", "missing", "superseded", "abandoned", "damaged")
_UNFINISHED = ("running", "unfinished", "planned", "pending", "queued")
WIDTH = 80
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
    """``finished``, ``diverged``, ``failed``, ``missing`` (planned but not ended), ``superseded`` (finished by earlier
    code), ``abandoned`` or ``damaged``."""
    spec: RunSpec | None = None
    """Its identity; None if its record cannot be read."""
    reason: str | None = None
    """Why it failed or was abandoned, or what is damaged."""
    stored: StoredRun | None = None
    directory: Path | None = None
    suffix: str = ""
    """The settings that tell it apart from other runs of its arm and seed, e.g. ``,lr=0.03``."""

    @property
    def ending(self) -> str:
        """The status in words, e.g. ``diverged at step 212``."""
        return self.stored.ending if self.status == "diverged" and self.stored is not None else self.status

    @property
    def short_name(self) -> str:
        """The run's name within its study."""
        return f"{self.arm}/s{self.seed}{self.suffix}"

    @property
    def name(self) -> str:
        """The run's name within the directory."""
        return f"{self.study}/{self.short_name}"


def named_runs(directory: Directory) -> list[NamedRun]:
    """Returns every run of a directory with its name, sorted by study, arm, seed and settings."""
    abandoned = directory.history.abandoned
    codes = current_code([*(run.spec for run in directory.store), *directory.planned], directory.declarations)
    runs: dict[str, NamedRun] = {}
    for run in directory.store:
        current = codes[run.study].made(run.spec) or not run.has_results
        status = "abandoned" if run.id in abandoned else run.status if current else "superseded"
        runs[run.id] = NamedRun(
            run.study, run.arm, run.seed, run.id, run.config, status,
            run.spec, abandoned.get(run.id, run.reason), run, run.directory,
        )  # fmt: skip
    for lost in directory.damaged:
        runs[lost.id] = NamedRun(
            lost.study, lost.arm, lost.seed, lost.id, lost.config or {},
            "abandoned" if lost.id in abandoned else "damaged",
            reason=abandoned.get(lost.id, lost.reason), directory=lost.directory,
        )  # fmt: skip
    for spec in directory.planned:
        if spec.id not in runs and (codes[spec.study].made(spec) or spec.id in abandoned):
            status = "abandoned" if spec.id in abandoned else "missing"
            runs[spec.id] = NamedRun(
                spec.study, spec.arm, spec.seed, spec.id, spec.settings, status, spec, abandoned.get(spec.id)
            )
    named = _with_distinguishing_settings(list(runs.values()))
    return sorted(named, key=lambda run: (run.study, run.arm, run.seed, run.suffix, run.id))


def _with_distinguishing_settings(runs: Sequence[NamedRun]) -> list[NamedRun]:
    """Returns the runs, each with the settings in which runs of its arm and seed differ, and its code if needed."""
    groups: dict[tuple[str, str, int], list[NamedRun]] = {}
    for run in runs:
        groups.setdefault((run.study, run.arm, run.seed), []).append(run)
    named: list[NamedRun] = []
    for group in groups.values():
        if len(group) == 1:
            named += group
            continue
        names = dict.fromkeys(name for run in group for name in run.settings)
        texts = [{name: _text(run.settings.get(name)) for name in names} for run in group]
        differing = [name for name in names if len({text[name] for text in texts}) > 1]
        suffixes = ["".join(f",{name}={text[name]}" for name in differing) for text in texts]
        if len(set(suffixes)) < len(group):
            codes = [run.id if run.spec is None else "=".join(code_words(run.spec)) for run in group]
            suffixes = [f"{suffix},{code}" for suffix, code in zip(suffixes, codes, strict=True)]
        named += [replace(run, suffix=suffix) for run, suffix in zip(group, suffixes, strict=True)]
    return named


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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
        names = {text for run in runs for text in (run.name, run.short_name, run.short_name.removesuffix(run.suffix))}
        hint = did_you_mean(name, names)
        if not hint.startswith("; did"):  # it would list all names, which may be thousands
            hint = "; list them with `kymograph show`"
        raise KymographError(f"there is no run {name!r}{hint}")
    return chosen


def choose_runs(
    runs: Sequence[NamedRun],
    *,
    study: str | None = None,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    statuses: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
) -> list[NamedRun]:
    """Returns the runs that match a study, arms (names or patterns), seeds, statuses and settings.

    A study, arm or setting that no run has is an error; an empty result is not.
    """
    chosen = list(runs)
    if study is not None:
        chosen = [run for run in runs if run.study == study]
        _check_any(chosen, "the study", study, {run.study for run in runs})
    for arm in arms:
        named = [run for run in chosen if fnmatch.fnmatchcase(run.arm, arm)]
        _check_any(named, "the arm", arm, {run.arm for run in chosen})
    if arms:
        chosen = [run for run in chosen if any(fnmatch.fnmatchcase(run.arm, arm) for arm in arms)]
    for name, value in (where or {}).items():
        having = [run for run in chosen if name in run.settings]
        _check_any(having, "a setting", name, {setting for run in chosen for setting in run.settings})
        chosen = [run for run in having if run.settings[name] == value]
    for status in statuses:
        if status not in STATUSES:
            hint = (
                "; a run that has not ended is 'missing'" if status in _UNFINISHED else did_you_mean(status, STATUSES)
            )
            raise KymographError(f"there is no run status {status!r}{hint}")
    return [run for run in chosen if (not seeds or run.seed in seeds) and (not statuses or run.status in statuses)]


def _check_any(chosen: Collection[Any], what: str, name: str, names: set[str]) -> None:
    if not chosen:
        raise KymographError(f"no run has {what} {name!r}{did_you_mean(name, names)}")


def run_table(
    runs: Sequence[NamedRun],
    declarations: Mapping[str, Declaration],
    width: int = WIDTH,
    asked: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Returns the runs as text of at most ``width`` columns: by study, name, status and the first headline numbers.

    ``asked`` has the columns that come before the headline numbers: by title, the values by the run's id.
    """
    blocks = []
    for study in dict.fromkeys(run.study for run in runs):
        study_runs = [run for run in runs if run.study == study]
        counts = {status: sum(run.status == status for run in study_runs) for status in STATUSES}
        total = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        declared = declarations.get(study)
        keys = list(declared.headlines) if declared is not None else []
        keys = keys or sorted({key for run in study_runs if run.stored for key in run.stored.summary})
        numbers = {key: {run.id: run.stored.summary.get(key) for run in study_runs if run.stored} for key in keys}
        blocks.append(
            "\n".join([_cut(f"{study}: {total}", width), *_lines(study_runs, {**(asked or {}), **numbers}, width)])
        )
    return "\n\n".join(blocks)


def _lines(runs: Sequence[NamedRun], values: Mapping[str, Mapping[str, Any]], width: int) -> list[str]:
    """Returns the lines of one study: as many columns of numbers as fit, or the reason why a run has none."""
    columns = [["run", *(run.short_name for run in runs)], ["status", *(run.ending for run in runs)]]
    sizes = [max(map(len, column)) for column in columns]
    sizes[0] = min(sizes[0], width - sizes[1] - 4)
    for title, of_runs in values.items():
        column = [title, *(_cell(of_runs.get(run.id)) for run in runs)]
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


def _cell(value: Any) -> str:
    return "" if value is None else number_text(value, 4) if is_number(value) else str(value)


def _cut(text: str, width: int) -> str:
    line = " ".join(text.splitlines()) if "\n" in text else text
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def run_details(
    run: NamedRun, whole: bool = False, last: Mapping[str, Mapping[str, float]] | None = None
) -> dict[str, Any]:
    """Returns what is known about a run, as JSON values; ``whole`` adds notes, series, provenance and traceback.

    ``last`` has last values of series that were read, by name and by the run's id.
    """
    stored = run.stored
    details: dict[str, Any] = {
        "name": run.name,
        "study": run.study,
        "arm": run.arm,
        "seed": run.seed,
        "id": run.id,
        "status": run.status,
        "diverged_at": None if stored is None or stored.divergence is None else stored.divergence.step,
        "directory": None if run.directory is None else str(run.directory),
        "settings": dict(run.settings),
        "summary": {} if stored is None else plain(stored.summary),
        "seconds": None if stored is None else stored.seconds,
        "reason": run.reason,
    }
    if last:
        details["last"] = plain({name: values.get(run.id) for name, values in last.items()})
    if whole:
        provenance = {} if stored is None else dict(stored.provenance)
        details["notes"] = provenance.pop("notes", [])
        details["series"] = [] if stored is None else sorted(stored.series)
        details["provenance"] = provenance
        details["traceback"] = None if stored is None else stored.traceback
    return details


def run_text(run: NamedRun) -> str:
    """Returns one run as text: how it ended, settings, summary, series, notes, provenance, and why it failed."""
    details = run_details(run, whole=True)
    took = "" if details["seconds"] is None else f" in {number_text(details['seconds'])} s"
    lines = [f"{run.name}: {run.ending}{took}", f"  id         {run.id}"]
    lines += [f"  directory  {run.directory}"] if run.directory is not None else []
    lines += [f"  reason     {run.reason}"] if run.reason is not None else []
    for title in ("settings", "summary"):
        lines += _section(title, details[title])
    if details["series"]:
        names = textwrap.wrap(", ".join(details["series"]), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
        lines += ["", "series", *(f"  {line}" for line in names)]
    lines += ["", "notes", *(f"  {note}" for note in details["notes"])] if details["notes"] else []
    lines += _section("provenance", details["provenance"])
    lines += ["", details["traceback"].rstrip()] if details["traceback"] else []
    return "\n".join(lines)


def _section(title: str, values: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a titled list of names and values; none if it is empty."""
    size = max(map(len, values), default=0)
    return ["", title, *(f"  {key:<{size}}  {_shown(value)}" for key, value in values.items())] if values else []


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    return "missing" if value is None else str(value)
