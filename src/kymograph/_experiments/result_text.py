"""What is printed when a sweep has ended: its headline numbers, why runs failed, and which values tuning chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kymograph._experiments.stages import TuningResult
from kymograph._rounding import number_text
from kymograph._runs.store import Store
from kymograph._runs.summaries import HeadlineNumber, arm_headlines, by_arm_and_settings, count_diverged
from kymograph._studies.study import Study
from kymograph._sweep.compute import RunOutcome
from kymograph._wording import counted, line_width

MOST_SHOWN = 5
"""How many reasons for failures are shown."""


def headline_table(study: Study[Any], store: Store) -> str:
    """Returns the study's headline numbers as text: mean over seeds and its 95 % interval, or of p-values the median.

    There is a row per arm, and per choice of settings where an arm's runs differ in them. If that is wider than the
    terminal, each row becomes a line per number instead.
    """
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for label, runs in by_arm_and_settings(store).items():
        headlines = arm_headlines([run.summary for run in runs], study.headlines, study.bounds)
        diverged = count_diverged(runs)
        texts = [_cell(number, key in study.p_values) for key, number in headlines.items()]
        rows.append([label, f"{len(runs)} ({diverged})" if diverged else str(len(runs)), *texts])
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


def failure_text(failures: Sequence[RunOutcome], store: Store, out: str | Path, debug: bool = False) -> str:
    """Returns why runs failed, each reason once with the first run that had it; with ``debug``, tracebacks as well.

    Args:
        failures: how the runs that failed ended.
        store: the runs of the sweep.
        out: their directory, as the user wrote it.
        debug: whether to show tracebacks. Runs that failed at the same spot show it once.
    """
    runs = {run.id: run for run in store.failed}
    order = {run: index for index, run in enumerate(runs)}
    lines: list[str] = []
    shown: dict[str, str] = {}  # the run that each traceback was shown for
    reasons: dict[str, list[RunOutcome]] = {}
    for failure in failures:
        reasons.setdefault(failure.reason or "", []).append(failure)
    for reason, alike in list(reasons.items())[:MOST_SHOWN]:
        # Engines report in the order in which runs end; the run that is named should not depend on it.
        failure = min(alike, key=lambda outcome: order.get(outcome.run, len(order)))
        run = runs.get(failure.run)
        name = failure.run if run is None else f"{run.arm}, seed {run.seed}"
        others = f" and {counted(len(alike) - 1, 'other run')}" if len(alike) > 1 else ""
        lines.append(f"  failed: {name}{others}: {reason}")
        if debug:
            trace = None if run is None else run.traceback
            first = shown.setdefault(trace or "", name)
            if trace is None:
                lines.append("    no traceback: its process ended without reporting one")
            elif first != name:
                lines.append(f"    the traceback is that of {first}")
            else:
                lines += [f"    {line}" for line in trace.rstrip().splitlines()]
    if len(reasons) > MOST_SHOWN:
        lines.append(f"  and {len(failures) - sum(map(len, list(reasons.values())[:MOST_SHOWN]))} more")
    if lines and not debug:
        lines.append(f"  --debug prints tracebacks; `kymograph show --dir {out} --status failed` lists the runs")
    return "\n".join(lines)


def tuning_lines(tuning: TuningResult) -> list[str]:
    """Returns a line with the number of tuning runs, and a line per arm with the chosen value and its mean."""
    queued = f", {tuning.submitted} in the queue" if tuning.submitted else ""
    computed = tuning.computed - len(tuning.failures)
    lines = [f"tuning: {computed} computed, {tuning.found} found, {len(tuning.failures)} failed{queued}"]
    for choice in tuning.choices:
        rule, arm = choice.tuned, choice.arm
        if not choice.usable:
            reason = "because every value has a run that failed or diverged"
            lines.append(f"  {arm}: no {rule.setting} can be chosen, {reason}")
            continue
        mean = number_text(choice.means[list(rule.grid).index(choice.value)], 4)
        edge = rule.edge(choice.value)
        at_edge = f"; the {edge} of the grid, so claims about it will be INVALID" if edge else ""
        lines.append(f"  {arm}: {rule.setting} {choice.value} ({rule.best} mean {rule.by}, {mean}){at_edge}")
    return lines
