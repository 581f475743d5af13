"""Notes on a sweep, before and after it: claims that it cannot decide, and runs that look wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kymograph._claims.claim import Claim
from kymograph._claims.decision import can_decide
from kymograph._claims.grid import Grid, claims_on_grid
from kymograph._claims.registration import all_claims, changed_claims, unregistered_settings
from kymograph._errors import did_you_mean
from kymograph._runs.directory import Directory
from kymograph._runs.spec import RunSpec
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import collected_notes, is_number
from kymograph._statistics.p_values import LEAST_SEEDS, smallest_p
from kymograph._studies.study import Study


def notes_before(
    directory: Directory,
    study: Study[Any],
    specs: Sequence[RunSpec[Any]],
    points: Iterable[Mapping[str, Any]],
    grid: Grid,
) -> list[str]:
    """Returns what to know before the runs ``specs`` are computed, at these ``points`` of the grid."""
    arms, seeds = {spec.arm for spec in specs}, {spec.seed for spec in specs}
    notes = [unregistered_settings(directory.log, study, arms, point) for point in points]
    notes += [_too_few_seeds(study, arms, len(seeds), grid), changed_claims(directory, study, grid)]
    return [note for note in notes if note is not None]


def notes_after(study: Study[Any], finished: Sequence[StoredRun]) -> list[str]:
    """Returns what to know about the finished runs of a sweep."""
    same = same_in_all_seeds(finished, study.headlines)
    missing = _numbers_that_no_run_has(study.claims(), finished)
    return [*collected_notes(finished), *([] if same is None else [same]), *missing]


def _too_few_seeds(study: Study[Any], arms: Collection[str], seeds: int, grid: Grid) -> str | None:
    """Returns why this many seeds cannot decide the study's claims about these arms; None if they can."""
    claims = claims_on_grid(study.claims(), grid)
    ready = [claim for claim in claims if {side.arm for side in claim.every_side} <= set(arms)]
    if not ready:
        return None
    if seeds < LEAST_SEEDS:
        few = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
        return f"{few} too few for a verdict: claims need at least {LEAST_SEEDS}"
    families = [claim.family for claim in ready if claim.kind is None]
    largest = max(families, key=families.count, default="")
    if largest and not can_decide(seeds, families.count(largest), ready[0].alpha):
        return (
            f"{seeds} seeds cannot decide {all_claims(families.count(largest), largest)}: "
            f"the exact test reaches no p below {smallest_p(seeds):.2g}"
        )
    return None


def same_in_all_seeds(runs: Iterable[StoredRun], headlines: Iterable[str] = ()) -> str | None:
    """Returns a warning about the first arm whose finished runs are identical across seeds; None if there is none.

    Runs are identical if every number in their summaries and series is: the seed is then most likely not used. A single
    constant number, such as a parameter count, is no evidence.
    """
    groups: dict[tuple[str, str, str], list[StoredRun]] = {}
    for run in runs:
        if run.has_results:
            groups.setdefault((run.study, run.arm, run.spec.settings_text), []).append(run)
    same = [group for group in groups.values() if len({run.seed for run in group}) > 1 and _are_same(group)]
    if not same:
        return None
    first = same[0][0]
    numbers = _summary_numbers(first)
    named = next((key for key in (*headlines, *numbers) if key in numbers), None)
    what = f"the series {next(iter(first.series))} is the same" if named is None else f"{named} is {numbers[named]:.6g}"
    others = len({run.arm for group in same for run in group} - {first.arm})
    more = f", and likewise in {others} more arm{'s' if others > 1 else ''}" if others else ""
    return (
        f"{what} in all {len(same[0])} seeds of {first.arm}{more}: the run does not seem to use "
        "its seed (run.seeded, run.generator or run.seed)"
    )


def _are_same(runs: Sequence[StoredRun]) -> bool:
    numbers, digest = _summary_numbers(runs[0]), runs[0].series_digest
    if not numbers and not runs[0].series:
        return False
    return all(_summary_numbers(run) == numbers and run.series_digest == digest for run in runs[1:])


def _summary_numbers(run: StoredRun) -> dict[str, Any]:
    return {key: value for key, value in run.summary.items() if is_number(value) and not isinstance(value, bool)}


def _numbers_that_no_run_has(claims: Iterable[Claim], runs: Collection[StoredRun]) -> list[str]:
    """Returns a sentence for every number that a claim is about but no run of its arm has."""
    sentences: dict[str, str] = {}
    for claim in claims:
        for side in claim.every_side:
            name, from_series = side.measure.name, side.measure.reduce is not None
            stored = [run.series if from_series else run.summary for run in runs if run.arm == side.arm]
            if not stored or any(name in numbers for numbers in stored):
                continue
            what = "logged the series" if from_series else "returned"
            others = sorted({other for numbers in stored for other in numbers})
            sentences.setdefault(
                name,
                f"no run of {side.arm} {what} {name!r}, which the claim {claim.name!r} is about"
                + did_you_mean(name, others),
            )
    return list(sentences.values())
