"""The page that `reproduce` writes: every verdict, the numbers of tuned arms, published values next to ours."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from kymograph import StoredRun, Study, Tuned, Verdicts
from kymograph._pictures.verdict_table import summary_lines
from kymograph._rounding import estimate_text, number_text
from kymograph._runs.directory import Directory
from kymograph._runs.log import SHORT
from kymograph._runs.summaries import HeadlineNumber, arm_headlines, count_diverged, headline_number, is_number
from kymograph._wording import counted, markdown_table
from kymograph_studies.data import copy_remarks
from kymograph_studies.published import PublishedComparison, WithPublished, compare

TEXT = "Means over seeds and their 95 % intervals; every tuned arm at the value that was chosen for it on other seeds."
EDGE = "A value in brackets is at the edge of its grid, so that a better one may lie outside."


@runtime_checkable
class WithContrasts(Protocol):
    """A study whose arms are compared with others, seed by seed, in the first headline number."""

    @property
    def contrasts(self) -> Mapping[str, str]:
        """The label of each difference, and the end of the name of the arm to subtract; an attribute of the class.

        With ``{"to BP": "bp"}`` ``mlp/dfa`` is compared with ``mlp/bp``.
        """


def arm_numbers(study: Study[Any], runs: Sequence[StoredRun]) -> str:
    """Returns a Markdown table of every arm's chosen value, headline numbers, contrasts and time.

    The time is that of one run, including all measurements, while other runs share the machine.
    """
    rules = study.tuning()
    contrasts = study.contrasts if isinstance(study, WithContrasts) else {}
    by_arm: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_arm.setdefault(run.arm, []).append(run)
    first = next(iter(study.headlines), "")
    header = [
        "arm",
        "n",
        " and ".join(dict.fromkeys(rule.setting for rule in rules.values())),
        *study.headlines.values(),
        *(f"{study.headlines.get(first, first)} {label}" for label in contrasts),
        "seconds a run, median",
    ]
    rows = []
    for arm, arm_runs in by_arm.items():
        headlines = arm_headlines([run.summary for run in arm_runs], study.headlines, study.bounds)
        diverged = count_diverged(arm_runs)
        others = [by_arm.get(_sibling(arm, end, by_arm), []) for end in contrasts.values()]
        times = [run.seconds for run in arm_runs if run.seconds is not None]
        rows.append([
            arm,
            f"{len(arm_runs)} ({diverged})" if diverged else str(len(arm_runs)),
            _chosen(rules.get(arm), arm_runs),
            *(_estimate(number) for number in headlines.values()),
            *(_difference(arm_runs, other_runs, first) for other_runs in others),
            f"{statistics.median(times):.1f}" if times else "",
        ])  # fmt: skip
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
    pairs: list[tuple[Any, Any]] = [(run.summary.get(key), theirs.get(run.seed)) for run in runs]
    return _estimate(headline_number([a - b for a, b in pairs if is_number(a) and is_number(b)]))


def _chosen(rule: Tuned | None, runs: Sequence[StoredRun]) -> str:
    """Returns the tuned setting's value, in brackets at the edge of its grid; empty for an arm that is not tuned."""
    if rule is None:
        return ""
    values = dict.fromkeys(run.config.get(rule.setting) for run in runs)
    return ", ".join(f"[{value}]" if rule.edge(value) else str(value) for value in values)


def _estimate(number: HeadlineNumber) -> str:
    return estimate_text(number.mean, number.interval) if number.n else ""


def verdict_page(
    verdicts: Verdicts,
    directory: Directory,
    studies: Collection[Study[Any]],
    ids: set[str],
    data: str,
    command: str,
    about: str = "",
) -> str:
    """Returns a page in Markdown: every verdict with its reasons, published values next to ours, provenance.

    Args:
        verdicts: the verdicts on all claims.
        directory: the directory with the runs.
        studies: those whose runs were judged; they hold the published values.
        ids: the runs that were judged.
        data: the data set that the image studies used.
        command: the command that writes the page.
        about: the one study that the page is about; empty: those of the scripts.
    """
    runs = [run for run in directory.store.finished if run.id in ids]
    seeds = len({run.seed for run in runs})
    name = {"digits": "embedded data", "cifar10": "CIFAR-10"}.get(data, data)
    ran = f"{counted(len(runs), 'run')}, {counted(seeds, 'seed')}"
    parts = [
        f"# Verdicts{f' of {about}' if about else ''} on {name}",
        f"Written by `{command}`: {next(summary_lines(verdicts))}; {ran}.",
        verdicts.markdown().strip(),
    ]
    compared: dict[str, list[PublishedComparison]] = {}
    for study in studies:
        study_runs = [run for run in runs if run.study == study.name]
        if study_runs and study.tuning():
            parts += [f"## Numbers of {study.name}", arm_numbers(study, study_runs)]
        published = study.published if isinstance(study, WithPublished) else {}
        for source, values in published.items():
            if comparisons := compare(values, study_runs, study.qualifying):
                compared.setdefault(source, []).extend(comparisons)
    if compared:
        parts += ["## Published values", *itertools.starmap(_published, compared.items())]
    parts += ["## Provenance", _provenance(runs, directory)]
    return "\n\n".join(parts) + "\n"


def _published(source: str, comparisons: Sequence[PublishedComparison]) -> str:
    header = ["runs", "number", "published", "ours: mean [95 % interval], range over seeds", "n", ""]
    rows = []
    for comparison in comparisons:
        value, ours = comparison.value, comparison.ours
        present = [number for number in ours.values if number is not None]
        spread = f", {number_text(min(present))} to {number_text(max(present))}" if present else ""
        rows.append([
            ", ".join([value.arm, *(f"{name} {setting}" for name, setting in comparison.settings.items())]),
            value.label,
            value.published,
            estimate_text(ours.mean, ours.interval) + spread,
            f"{ours.n} of {len(ours.values)}" if ours.missing else str(ours.n),
            "agrees" if comparison.agrees else f"differs: {value.remark or 'not explained'}",
        ])  # fmt: skip
    text = (
        f"Published: {source}. Values agree if the range of our seeds and our 95 % interval both overlap "
        "the published range."
    )
    return f"{text}\n\n{markdown_table(header, rows).strip()}"


def _provenance(runs: Sequence[StoredRun], directory: Directory) -> str:
    values: dict[str, list[Any]] = {
        "data digest": [run.summary.get("data_digest") for run in runs],
        "code": [run.provenance.get("code") for run in runs],
        "device": [run.provenance.get("device") for run in runs],
        "processor": [run.provenance.get("hardware", {}).get("processor") for run in runs],
        "torch threads of a run": [run.provenance.get("threads") for run in runs],
        **{
            package: [run.provenance.get("versions", {}).get(package) for run in runs]
            for package in ("kymograph", "torch", "numpy", "python")
        },
    }
    rows = [
        [name, ", ".join(sorted({str(value) for value in of_runs if value is not None}))]
        for name, of_runs in values.items()
    ]
    heads = ", ".join(directory.log.heads)
    rows.append(["heads of the log", f"`{heads}`" if heads else "none"])
    table = markdown_table(["", ""], [row for row in rows if row[1]]).strip()
    text = (
        f"The heads are SHA-256 hashes, which cover every registration and every planned run; `kymograph verify DIR "
        f"--anchor {{first {SHORT} digits}}` finds them."
    )
    remarks = copy_remarks(str(run.summary.get("data_digest")) for run in runs)
    return "\n\n".join([*remarks, table, text])
