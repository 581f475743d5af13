"""A study's headline numbers as text."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.runs.headlines import HeadlineNumber, arm_headlines
from kymograph.runs.setting_groups import by_arm_and_settings
from kymograph.runs.store import Store
from kymograph.studies.base import Study
from kymograph.wording import line_width


def headline_table(study: Study, store: Store) -> str:
    """Returns the study's headline numbers as text: mean over seeds and its 95 % interval, or of p-values the median.

    There is a row per arm, and per choice of settings where an arm's runs differ in them. If that is wider than the
    terminal, each row becomes a line per number instead.
    """
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for label, runs in by_arm_and_settings(store).items():
        found = arm_headlines([run.summary for run in runs], study.headlines, study.bounds)
        diverged = f" ({found.diverged} diverged)" if found.diverged else ""
        texts = [_cell(number, key in study.p_values) for key, number in found.numbers.items()]
        rows.append([label, f"{len(runs)}{diverged}", *texts])
    table = _columns([header, *rows])
    if max(map(len, table)) <= line_width():
        return "\n".join(table)
    blocks = []
    for arm, n, *cells in rows:
        numbers = _columns([["", *pair] for pair in zip(study.headlines.values(), cells, strict=True)])
        blocks.append("\n".join([f"{arm}, n {n}", *numbers]))
    return "\n".join(blocks)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows as lines of aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(number: HeadlineNumber, p_value: bool) -> str:
    """Returns the number as text, and of how many runs it is if some have none."""
    if number.n == 0:
        return "missing"
    return number.text(p_value=p_value) + (f" of {number.n}" if number.missing else "")
