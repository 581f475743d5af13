"""The methods paragraph and the provenance of a page, written from the runs themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kymograph.claims.verdict import Verdicts
from kymograph.report.grouping import in_order
from kymograph.report.svg import number
from kymograph.runs.ledger import PlannedRun, read_plan
from kymograph.runs.store import Store, StoredRun


@dataclass(frozen=True)
class Environment:
    """Where some of the runs were computed."""

    runs: int
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Ids:
    """The runs of one arm by seed and id."""

    study: str
    arm: str
    runs: tuple[tuple[int, str, str], ...]
    """Seed, id and status."""


def methods(store: Store, verdicts: Verdicts) -> list[tuple[str, str]]:
    """Returns paragraphs with a heading each: runs, tests, exclusions, failed runs, versions."""
    return [
        ("Runs", _runs(store)),
        ("Statistics", _statistics(verdicts)),
        ("Exclusions", _exclusions(store, verdicts)),
        ("Software", _software(store)),
    ]


def _runs(store: Store) -> str:
    sentences = []
    for study in in_order(store.studies):
        mine = store.select(study)
        seeds = sorted(mine.seeds)
        listed = ", ".join(map(str, seeds[:12])) + (f" and {len(seeds) - 12} more" if len(seeds) > 12 else "")
        sentences.append(
            f"{study}: {_count(len(mine.arms), 'arm')}, {_count(len(seeds), 'seed')} ({listed}), "
            f"{_count(len(mine.finished), 'finished run')}"
            + (f" and {len(mine.failed)} failed" if mine.failed.runs else "")
            + "."
        )
    sentences.append(
        "Random numbers are drawn from generators set by seed and purpose, so that arms of one seed share what they "
        "can share (initial weights, data, order of the batches) and comparisons are paired by seed."
    )
    return " ".join(sentences)


def _statistics(verdicts: Verdicts) -> str:
    bands = (
        "Bands around curves are Student-t 95 % intervals of the mean over seeds, taken on the logarithm where the "
        "scale is logarithmic."
    )
    if not len(verdicts):
        return f"No claims were judged. {bands}"
    levels = sorted({verdict.claim.alpha for verdict in verdicts})
    families = sorted({verdict.claim.family for verdict in verdicts})
    counts = sorted({verdict.n for verdict in verdicts if verdict.n}) or [0]
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    judged = f"{_count(len(verdicts), 'claim')} {'was' if len(verdicts) == 1 else 'were'} judged over {span} seeds"
    return (
        f"{judged} by a paired Student t test and a sign-flip test (exact to 20 seeds) of the per-seed differences "
        "(or log ratios); "
        "the larger of the two p-values counts, corrected by Holm's method among the claims of a study in a set-up "
        f"({', '.join(families)}), at level {' or '.join(number(level) for level in levels)}. Effects come with 95 % "
        "Student-t intervals; equivalence is decided by the 90 % interval against the margin that the claim names. "
        f"{bands}"
    )


def _exclusions(store: Store, verdicts: Verdicts) -> str:
    parts = []
    diverged = [run for run in store.finished if run.summary.get("finite") is False]
    if diverged:
        arms = Counter(f"{run.study} {run.arm}" for run in diverged)
        listed = ", ".join(f"{arm} ({count})" for arm, count in sorted(arms.items()))
        parts.append(f"{_count(len(diverged), 'run')} diverged (numbers not finite): {listed}.")
    dropping = sorted({v.claim.name for v in verdicts if v.claim.diverged == "drop"})
    if dropping:
        parts.append(f"Claims that declare to leave diverged seeds out: {', '.join(dropping)}.")
    absent = missing(store)
    if absent:
        parts.append(f"{_count(len(absent), 'planned run')} had not ended when the page was built.")
    failed = store.failed.runs
    if failed:
        parts.append(f"{_count(len(failed), 'run')} failed and took no part; the reasons are listed under Provenance.")
    return " ".join(parts) or "No run failed, none diverged, and none was left out."


def missing(store: Store) -> list[PlannedRun]:
    """Returns the planned runs with the settings of stored ones that are not among them."""
    if store.root is None:
        return []

    def settings(run: StoredRun | PlannedRun) -> tuple[str, str, str]:
        return run.study, run.arm, json.dumps(dict(run.config), sort_keys=True)

    ids, there = {run.id for run in store}, {settings(run) for run in store}
    return [run for run in read_plan(store.root) if run.id not in ids and settings(run) in there]


def _software(store: Store) -> str:
    seen: dict[str, set[str]] = {}
    for run in store:
        for name, version in dict(run.provenance.get("versions", {})).items():
            seen.setdefault(str(name), set()).add(str(version))
    versions = ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in sorted(seen.items()))
    codes = sorted({str(run.provenance["code"]) for run in store if "code" in run.provenance})
    devices = sorted({str(run.provenance["device"]) for run in store if "device" in run.provenance})
    text = f"Computed with {versions or 'unknown versions'}"
    text += f" on {' and '.join(devices)}" if devices else ""
    text += f"; source hash {' and '.join(codes)}." if codes else "."
    if len(codes) > 1:
        text += " The runs were made by different states of the source code."
    return text


def environments(store: Store) -> list[Environment]:
    """Returns the distinct places where runs were computed, the most common first."""
    groups: dict[str, list[StoredRun]] = {}
    for run in store:
        facts = {key: value for key, value in run.provenance.items() if key != "stack"}
        groups.setdefault(json.dumps(facts, sort_keys=True, default=str), []).append(run)
    found = []
    for text, runs in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        found.append(Environment(len(runs), tuple(_flat(json.loads(text)))))
    return found


def _flat(facts: dict, prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in sorted(facts.items()):
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key} · ")
        else:
            rows.append((f"{prefix}{key}", str(value)))
    return rows


def run_ids(store: Store) -> list[Ids]:
    """Returns every run by study and arm."""
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in store:
        groups.setdefault((run.study, run.arm), []).append(run)
    return [
        Ids(study, arm, tuple((run.seed, run.id, run.status) for run in sorted(runs, key=lambda r: (r.seed, r.id))))
        for (study, arm), runs in groups.items()
    ]


def failures(store: Store) -> Sequence[StoredRun]:
    """Returns the runs that failed, each with its reason."""
    return store.failed.runs


def _count(number_of: int, noun: str) -> str:
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"
