"""The page of verdicts that `kymograph reproduce` writes: the table, published values next to ours, and provenance."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kymograph.claims.verdict import Verdicts
from kymograph.data import copy_remarks
from kymograph.lab.arm_numbers import arm_numbers
from kymograph.report.verdict_table import summary_lines
from kymograph.rounding import estimate_text, number_text
from kymograph.runs.archive import Archive
from kymograph.runs.headlines import HeadlineNumber
from kymograph.runs.log import SHORT
from kymograph.runs.markdown import markdown_table
from kymograph.runs.stored import StoredRun
from kymograph.studies.base import Study
from kymograph.studies.published import PublishedComparison, compare
from kymograph.wording import counted


def verdict_page(
    verdicts: Verdicts,
    archive: Archive,
    studies: Collection[Study],
    ids: set[str],
    data: str,
    command: str,
    about: str = "",
) -> str:
    """Returns a page in Markdown: every verdict with its reasons, published values next to ours, provenance.

    Args:
        verdicts: the verdicts on all claims.
        archive: the directory with the runs.
        studies: those whose runs were judged; they hold the published values.
        ids: the runs that were judged.
        data: the data set that the image studies used.
        command: the command that writes the page.
        about: the one study that the page is about; empty: those of the scripts.
    """
    runs = [run for run in archive.store.finished if run.id in ids]
    seeds = len({run.seed for run in runs})
    name = {"digits": "embedded data", "cifar10": "CIFAR-10"}.get(data, data)
    ran = f"{counted(len(runs), 'run')}, {counted(seeds, 'seed')}"
    parts = [
        f"# Verdicts{f' of {about}' if about else ''} on {name}",
        f"Written by `{command}`: {next(summary_lines(verdicts))}; {ran}.",
        verdicts.markdown().strip(),
    ]
    for study in studies:
        if (study_runs := [run for run in runs if run.study == study.name]) and study.tuning():
            parts += [f"## Numbers of {study.name}", arm_numbers(study, study_runs)]
    compared: dict[str, list[PublishedComparison]] = {}
    for study in studies:
        for source, values in study.published.items():
            if found := compare(values, [run for run in runs if run.study == study.name], study.qualifying):
                compared.setdefault(source, []).extend(found)
    if compared:
        parts += ["## Published values", *(_published(source, found) for source, found in compared.items())]
    parts += ["## Provenance", _provenance(runs, archive)]
    return "\n\n".join(parts) + "\n"


def _published(source: str, compared: Sequence[PublishedComparison]) -> str:
    header = ["runs", "number", "published", "ours: mean [95 % interval], range over seeds", "n", ""]
    rows = []
    for one in compared:
        value = one.value
        known = [number for number in one.ours.values if number is not None]
        spread = f", {number_text(min(known))} to {number_text(max(known))}" if known else ""
        rows.append([
            ", ".join([value.arm, *(f"{name} {setting}" for name, setting in one.settings.items())]),
            value.label,
            value.published,
            _mean(one.ours) + spread,
            f"{one.ours.n} of {len(one.ours.values)}" if one.ours.missing else str(one.ours.n),
            "agrees" if one.agrees else f"differs: {value.remark or 'not explained'}",
        ])  # fmt: skip
    text = (
        f"Published: {source}. Values agree if the range of our seeds and our 95 % interval both overlap "
        "the published range."
    )
    return f"{text}\n\n{markdown_table(header, rows).strip()}"


def _mean(number: HeadlineNumber) -> str:
    return estimate_text(number.mean, number.interval)


def _provenance(runs: Sequence[StoredRun], archive: Archive) -> str:
    found: dict[str, list[Any]] = {
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
        [name, ", ".join(sorted({str(one) for one in values if one is not None}))] for name, values in found.items()
    ]
    heads = ", ".join(archive.log.heads)
    rows.append(["heads of the log", f"`{heads}`" if heads else "none"])
    table = markdown_table(["", ""], [row for row in rows if row[1]]).strip()
    text = (
        f"The heads are SHA-256 hashes, which cover every registration and every planned run; `kymograph verify DIR "
        f"--anchor {{first {SHORT} digits}}` finds them."
    )
    remarks = copy_remarks(str(run.summary.get("data_digest")) for run in runs)
    return "\n\n".join([*remarks, table, text])
