"""The methods section of a page, and the provenance of its runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kymograph._claims.verdict import Verdicts
from kymograph._pictures.report_page.svg import number
from kymograph._pictures.verdict_table import judged_text
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Damaged
from kymograph._runs.history import current_code
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import count_diverged
from kymograph._runs.tuned import tuning_study
from kymograph._wording import counted


def environments(store: Store) -> list[tuple[int, list[tuple[str, str]]]]:
    """Returns the distinct environments in which runs were computed, the most common first.

    Each is the number of its runs, and the names and values of the properties of its machine and software.
    """
    counts: Counter[str] = Counter()
    for run in store:
        properties = {key: value for key, value in run.provenance.items() if key not in ("stack", "log", "notes")}
        counts[json.dumps(properties, sort_keys=True, default=str)] += 1
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(count, _flat(json.loads(text))) for text, count in ordered]


def _flat(properties: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in sorted(properties.items()):
        rows += _flat(value, f"{prefix}{key} · ") if isinstance(value, dict) else [(f"{prefix}{key}", str(value))]
    return rows


def runs_by_arm(store: Store) -> dict[tuple[str, str], list[StoredRun]]:
    """Returns the runs of every study and arm in the order of their seeds."""
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in store:
        groups.setdefault((run.study, run.arm), []).append(run)
    return {key: sorted(runs, key=lambda run: (run.seed, run.id)) for key, runs in groups.items()}


MOST_SEEDS = 12
"""The most seeds listed for a study."""


def methods(
    store: Store,
    verdicts: Verdicts,
    declarations: Mapping[str, Declaration],
    damaged: Sequence[Damaged],
    planned: Sequence[RunSpec],
) -> list[tuple[str, str]]:
    """Returns the paragraphs with their headings: runs, statistics, exclusions, software.

    Args:
        store: the runs on the page.
        verdicts: the verdicts on them.
        declarations: the declarations of their studies, in page order.
        damaged: records that could not be read.
        planned: every run ever planned.
    """
    return [
        ("Runs", _runs(store, declarations)),
        ("Statistics", _statistics(verdicts)),
        ("Exclusions", _exclusions(store, verdicts, declarations, damaged, planned)),
        ("Software", _software(store)),
    ]


def _runs(store: Store, declarations: Mapping[str, Declaration]) -> str:
    sentences = []
    seeds = {study: tuple(sorted(store.select(study).seeds)) for study in declarations}
    shared = len(seeds) > 1 and len(set(seeds.values())) == 1
    for study in declarations:
        runs = store.select(study)
        listed = "" if shared else f" ({_seed_list(seeds[study])})"
        sentences.append(
            f"{study}: {counted(len(runs.arms), 'arm')}, {counted(len(seeds[study]), 'seed')}{listed}, "
            f"{counted(len(runs.finished), 'finished run')}"
            + (f" and {len(runs.failed)} failed" if runs.failed.runs else "")
            + "."
        )
    if shared:
        sentences.append(f"All studies used the seeds {_seed_list(next(iter(seeds.values())))}.")
    for study, declaration in declarations.items():
        by_rule: dict[str, list[str]] = {}
        for arm, rule in declaration.tuned.items():
            by_rule.setdefault(str(rule), []).append(arm)
        sentences += [
            f"{study}: tuning chose the {text}, for {', '.join(arms)}; the runs of {tuning_study(study)} take no part "
            "in the verdicts."
            for text, arms in by_rule.items()
        ]
    texts = {study: declaration.methods for study, declaration in declarations.items()}
    for text in dict.fromkeys(filter(None, texts.values())):
        owners = [study for study in texts if texts[study] == text]
        sentences.append(text if len(owners) == len(declarations) else f"{', '.join(owners)}: {text}")
    return " ".join(sentences)


def _seed_list(seeds: Sequence[int]) -> str:
    more = f" and {len(seeds) - MOST_SEEDS} more" if len(seeds) > MOST_SEEDS else ""
    return ", ".join(map(str, seeds[:MOST_SEEDS])) + more


def _statistics(verdicts: Verdicts) -> str:
    bands = (
        "Bands around curves are Student-t 95 % intervals of the mean over seeds, computed on the logarithm where the "
        "scale is logarithmic and no seed is 0."
    )
    if not len(verdicts):
        return f"No claims were judged. {bands}"
    levels = sorted({verdict.claim.alpha for verdict in verdicts})
    families = sorted({verdict.claim.study for verdict in verdicts})
    counts = sorted({verdict.n for verdict in verdicts if verdict.n}) or [0]
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    judged = f"{judged_text(verdicts)} {'was' if len(verdicts) == 1 else 'were'} judged over {span} seeds"
    return (
        f"{judged} by a paired Student t test and a sign-flip test (exact up to 20 seeds) of the per-seed differences "
        "(or log ratios). The larger of the two p-values decides, corrected by Holm's method over the claims of a "
        f"study ({', '.join(families)}), at level {' or '.join(number(level) for level in levels)}. Effects have 95 % "
        "Student-t intervals, which are not corrected. Equivalence is decided by two one-sided tests of both kinds "
        f"against the claim's margin, corrected in the same way. {bands}"
    )


def _exclusions(
    store: Store,
    verdicts: Verdicts,
    declarations: Mapping[str, Declaration],
    damaged: Sequence[Damaged],
    planned: Sequence[RunSpec],
) -> str:
    sentences = []
    diverged = [run for run in store.finished if run.divergence is not None]
    if diverged:
        arms: dict[str, list[StoredRun]] = {}
        for run in diverged:
            arms.setdefault(f"{run.study} {run.arm}", []).append(run)
        listed = ", ".join(f"{arm} ({count_diverged(runs)})" for arm, runs in sorted(arms.items()))
        sentences.append(f"{counted(len(diverged), 'run')} diverged (non-finite numbers): {listed}.")
    dropping = sorted({v.claim.name for v in verdicts if v.claim.diverged == "drop"})
    if dropping:
        sentences.append(f"Claims declared to leave out diverged seeds: {', '.join(dropping)}.")
    old = superseded(store, declarations)
    if old:
        verb = "was" if old == 1 else "were"
        sentences.append(f"{counted(old, 'run')} {verb} superseded by newer code of the study and {verb} not judged.")
    absent = missing(store, declarations, damaged, planned)
    if absent:
        sentences.append(f"{counted(len(absent), 'planned run')} had not ended when the page was built.")
    failed = store.failed.runs
    if failed:
        sentences.append(f"{counted(len(failed), 'run')} failed (excluded; the reasons are under Provenance).")
    if damaged:
        verb = "was" if len(damaged) == 1 else "were"
        sentences.append(
            f"{counted(len(damaged), 'record')} {verb} damaged and {verb} left out; the reasons are under Provenance."
        )
    return " ".join(sentences) or "No run failed, diverged or was left out."


def superseded(store: Store, declarations: Mapping[str, Declaration]) -> int:
    """Returns how many runs were computed by an earlier version or source of their study."""
    code = current_code((run.spec for run in store), declarations)
    return sum(not code[run.study].made(run.spec) for run in store)


def missing(
    store: Store,
    declarations: Mapping[str, Declaration],
    damaged: Sequence[Damaged],
    planned: Sequence[RunSpec],
) -> list[RunSpec]:
    """Returns the planned runs of the current code that have not ended and have the settings of stored runs."""

    def settings(run: RunSpec) -> tuple[Any, ...]:
        return run.study, run.arm, run.version, run.source, json.dumps(run.settings, sort_keys=True)

    code = current_code([*(run.spec for run in store), *planned], declarations)
    stored = {settings(run.spec) for run in store}
    ended = {run.id for run in store} | {run.id for run in damaged}
    return [run for run in planned if run.id not in ended and settings(run) in stored and code[run.study].made(run)]


def _software(store: Store) -> str:
    seen: dict[str, set[str]] = {}
    for run in store:
        for name, version in dict(run.provenance.get("versions", {})).items():
            seen.setdefault(str(name), set()).add(str(version))
    versions = ", ".join(f"{name} {' and '.join(sorted(several))}" for name, several in sorted(seen.items()))
    codes = sorted({str(run.provenance["code"]) for run in store if "code" in run.provenance})
    devices = sorted({str(run.provenance["device"]) for run in store if "device" in run.provenance})
    text = f"Computed with {versions or 'unknown versions'}"
    text += f" on {' and '.join(devices)}" if devices else ""
    text += f"; source hash {' and '.join(codes)}." if codes else "."
    if len(codes) > 1:
        text += " The runs were computed by different versions of the source code."
    return text
