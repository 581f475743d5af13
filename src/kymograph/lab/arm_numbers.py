"""The numbers of a tuned study's arms in one table: chosen values, means with intervals, paired differences."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from kymograph.rounding import estimate_text
from kymograph.runs.headlines import HeadlineNumber, arm_headlines, headline_number, is_number
from kymograph.runs.markdown import markdown_table
from kymograph.runs.stored import StoredRun
from kymograph.runs.tuned import Tuned
from kymograph.studies.base import Study

TEXT = "Means over seeds and their 95 % intervals; every tuned arm at the value that was chosen for it on other seeds."
EDGE = "A value in brackets is at the edge of its grid, so that a better one may lie outside."


def arm_numbers(study: Study, runs: Sequence[StoredRun]) -> str:
    """Returns a Markdown table of every arm's chosen value, headline numbers, paired differences and time.

    The differences are those that the study asks for (`Study.contrasts`), in its first headline number. The time is
    that of one run, including all measurements, while other runs share the machine.
    """
    rules = study.tuning()
    settings = " and ".join(dict.fromkeys(rule.setting for rule in rules.values()))
    by_arm: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_arm.setdefault(run.arm, []).append(run)
    first = next(iter(study.headlines), "")
    header = [
        "arm", "n", settings, *study.headlines.values(), *(f"{study.headlines.get(first, first)} {label}"
        for label in study.contrasts), "seconds a run, median",
    ]  # fmt: skip
    rows = []
    for arm, arm_runs in by_arm.items():
        found = arm_headlines([run.summary for run in arm_runs], study.headlines, study.bounds)
        diverged = f" ({found.diverged} diverged)" if found.diverged else ""
        differences = [_difference(arm_runs, by_arm.get(_sibling(arm, end, by_arm), []), first)
                       for end in study.contrasts.values()]  # fmt: skip
        times = [run.seconds for run in arm_runs if run.seconds is not None]
        seconds = f"{statistics.median(times):.1f}" if times else ""
        numbers = [_mean(number) for number in found.numbers.values()]
        rows.append(
            [arm, f"{len(arm_runs)}{diverged}", _chosen(rules.get(arm), arm_runs), *numbers, *differences, seconds]
        )
    text = f"{TEXT} {EDGE}" if any(row[2].startswith("[") for row in rows) else TEXT
    return f"{text}\n\n{markdown_table(header, rows).strip()}"


def _sibling(arm: str, end: str, arms: Mapping[str, object]) -> str:
    """Returns the arm called ``end`` in the smallest group around ``arm`` that has one; empty if that is ``arm``.

    >>> _sibling("mlp/kp/decay", "bp", {"mlp/bp": 0, "conv/bp": 0})
    'mlp/bp'
    """
    group = arm
    while "/" in group:
        group = group.rpartition("/")[0]
        if f"{group}/{end}" in arms:
            return "" if f"{group}/{end}" == arm else f"{group}/{end}"
    return "" if end == arm else end


def _difference(runs: Sequence[StoredRun], others: Sequence[StoredRun], key: str) -> str:
    """Returns the mean difference over the seeds that both arms have, with its interval; empty if there are none."""
    theirs = {run.seed: run.summary.get(key) for run in others}
    pairs = [(run.summary.get(key), theirs.get(run.seed)) for run in runs]
    known = [float(value) - float(other) for value, other in pairs if is_number(value) and is_number(other)]  # type: ignore[arg-type]
    return _mean(headline_number(known))


def _chosen(rule: Tuned | None, runs: Sequence[StoredRun]) -> str:
    """Returns the tuned setting's value, in brackets at the edge of its grid; empty for an arm that is not tuned."""
    if rule is None:
        return ""
    values = dict.fromkeys(run.config.get(rule.setting) for run in runs)
    return ", ".join(f"[{value}]" if rule.edge(value) else str(value) for value in values)


def _mean(number: HeadlineNumber) -> str:
    return estimate_text(number.mean, number.interval) if number.n else ""
