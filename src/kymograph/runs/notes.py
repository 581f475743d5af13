"""What a reader of many runs should know: their notes, and whether the seed had any effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kymograph.runs.headlines import is_number
from kymograph.runs.stored import StoredRun


def collected_notes(runs: Sequence[StoredRun]) -> list[str]:
    """Returns every distinct note of the runs, with how many runs carry it."""
    carried: dict[str, int] = {}
    for run in runs:
        for note in dict.fromkeys(run.notes):
            carried[note] = carried.get(note, 0) + 1
    return [f"{note} ({_share(count, len(runs))})" for note, count in carried.items()]


def _share(count: int, total: int) -> str:
    return "1 run" if count == total == 1 else f"all {total} runs" if count == total else f"{count} of {total} runs"


def same_in_all_seeds(runs: Iterable[StoredRun], headlines: Iterable[str] = ()) -> str | None:
    """Returns a warning about the first arm whose finished runs are identical across seeds; None if there is none.

    Runs are identical if every number in their summaries and series is: the seed is then most likely not used. A single
    constant number, such as a parameter count, is no evidence.
    """
    groups: dict[tuple[str, str, str], list[StoredRun]] = {}
    for run in runs:
        if run.status == "finished":
            groups.setdefault((run.study, run.arm, run.spec.settings_text), []).append(run)
    found = [group for group in groups.values() if len({run.seed for run in group}) > 1 and _are_same(group)]
    if not found:
        return None
    first = found[0][0]
    others = len({run.arm for group in found for run in group} - {first.arm})
    more = f", and likewise in {others} more arm{'s' if others > 1 else ''}" if others else ""
    return (
        f"{_number(first, headlines)} in all {len(found[0])} seeds of {first.arm}{more}: the run does not seem to use "
        "its seed (run.seeded, run.generator or run.seed)"
    )


def _are_same(runs: Sequence[StoredRun]) -> bool:
    first = runs[0]
    numbers = _numbers(first)
    if not numbers and not first.series:
        return False
    return all(_numbers(run) == numbers and run.series_digest == first.series_digest for run in runs[1:])


def _numbers(run: StoredRun) -> dict[str, Any]:
    return {key: value for key, value in run.summary.items() if is_number(value) and not isinstance(value, bool)}


def _number(run: StoredRun, headlines: Iterable[str]) -> str:
    """Returns a number of the run with its name: a headline number if there is one, else the first, else a series."""
    numbers = _numbers(run)
    for key in (*headlines, *numbers):
        if key in numbers:
            return f"{key} is {numbers[key]:.6g}"
    name = next(iter(run.series))
    return f"the series {name} is the same"
