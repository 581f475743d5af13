"""The runs of a directory by name: chosen, as a table, and one of them in full."""

from __future__ import annotations

import fnmatch
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from kymograph.errors import KymographError, did_you_mean
from kymograph.rounding import number_text
from kymograph.runs.declaration import Declaration
from kymograph.runs.headlines import is_number
from kymograph.runs.names import STATUSES, NamedRun

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
