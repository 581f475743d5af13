"""Notes about a study's claims before and after a sweep: too few seeds, changed claims, numbers that no run has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.decide import can_decide
from kymograph.claims.grid import Grid, claims_on_grid
from kymograph.claims.logged import registrations, statement
from kymograph.claims.world import quantities
from kymograph.errors import did_you_mean
from kymograph.lab.register import all_claims
from kymograph.runs.log import Log
from kymograph.runs.stored import StoredRun
from kymograph.statistics.sign_flips import LEAST_SEEDS, smallest_p
from kymograph.studies.base import Study
from kymograph.wording import counted


def planning_note(study: Study, arms: Collection[str], seeds: int, grid: Grid | None = None) -> str | None:
    """Returns why this many seeds cannot decide the study's claims about these arms; None if they can."""
    claims = claims_on_grid(study.claims(), grid or {})
    ready = [claim for claim in claims if {quantity.arm for quantity in quantities(claim)} <= set(arms)]
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


def changed_claims(root: Path, study: Study, grid: Grid | None = None) -> str | None:
    """Returns, in words, which claims in a study's code were changed or added since registration; None if none were."""
    known = registrations(Log.read(root), study.name)
    registered = {name: statement(content) for one in known for name, content in one.claims.items()}
    if not registered:
        return None
    new = [
        claim.name
        for claim in claims_on_grid(study.claims(), grid or {})
        if registered.get(registration.key(claim)) != statement(claim.content)
    ]
    if not new:
        return None
    named = f"{new[0]!r}" + (f" and {counted(len(new) - 1, 'other claim')}" if len(new) > 1 else "")
    return (
        f"{named} {'are' if len(new) > 1 else 'is'} not what {study.name} has registered in {root}, which stays "
        "binding: `kymograph judge` with --study and the study's file judges both versions, the new one as post hoc; "
        "use another --out to register it"
    )


def numbers_that_no_run_has(claims: Iterable[Claim], runs: Collection[StoredRun]) -> list[str]:
    """Returns a sentence for every number that a claim is about but no run of its arm has."""
    found: dict[str, str] = {}
    for claim in claims:
        for quantity in quantities(claim):
            name, arm_runs = quantity.measure.name, [run for run in runs if run.arm == quantity.arm]
            stored = [run.series if quantity.measure.reduce is not None else run.summary for run in arm_runs]
            if not stored or any(name in one for one in stored):
                continue
            what = "logged the series" if quantity.measure.reduce is not None else "returned"
            others = sorted({other for one in stored for other in one})
            found.setdefault(
                name,
                f"no run of {quantity.arm} {what} {name!r}, which the claim {claim.name!r} is about"
                + did_you_mean(name, others),
            )
    return list(found.values())
