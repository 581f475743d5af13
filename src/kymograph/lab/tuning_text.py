"""The outcome of tuning, in lines of text."""

from __future__ import annotations

from kymograph.claims.tuning import Choice
from kymograph.lab.tune import Tuning
from kymograph.rounding import number_text


def tuning_lines(tuning: Tuning) -> list[str]:
    """Returns a line with the number of tuning runs, and a line per arm with the chosen value and its mean."""
    queued = f", {tuning.submitted} in the queue" if tuning.submitted else ""
    computed = tuning.computed - len(tuning.failures)
    counts = f"{computed} computed, {tuning.found} found, {len(tuning.failures)} failed{queued}"
    return [f"tuning: {counts}", *(f"  {_choice_text(one)}" for one in tuning.choices)]


def _choice_text(one: Choice) -> str:
    setting = one.tuned.setting
    if not one.usable:
        return f"{one.arm}: no {setting} can be chosen, because every value has a run that failed or diverged"
    mean = one.means[list(one.tuned.grid).index(one.value)]
    edge = one.tuned.edge(one.value)
    at_edge = f"; the {edge} of the grid, so claims about it will be INVALID" if edge else ""
    return f"{one.arm}: {setting} {one.value} ({one.tuned.best} mean {one.tuned.by}, {number_text(mean, 4)}){at_edge}"
