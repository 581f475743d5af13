"""A study's headline numbers as text."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.rounding import estimate_text
from kymograph.runs.headlines import HeadlineNumber, arm_headlines
from kymograph.runs.store import Store
from kymograph.studies.base import Study
from kymograph.wording import line_width


def headline_table(study: Study, store: Store) -> str:
    """Returns the study's headline numbers as text: a row per arm, mean over seeds and its 95 % interval.

    If that is wider than the terminal, each arm has a line per number instead.
    """
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for arm in store.arms:
        part = store.select(arms=[arm])
        found = arm_headlines([run.summary for run in part], study.headlines, study.bounds)
        diverged = f" ({found.diverged} diverged)" if found.diverged else ""
        rows.append([arm, f"{len(part.seeds)}{diverged}", *map(_cell, found.numbers.values())])
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


def _cell(number: HeadlineNumber) -> str:
    """Returns ``mean [low, high]``; the interval is left out where all seeds agree or there is only one."""
    if number.n == 0:
        return "missing"
    return estimate_text(number.mean, number.interval) + (f" of {number.n}" if number.missing else "")
