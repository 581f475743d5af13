"""Registering claims with a directory before its runs exist, and what so many seeds can decide about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.decide import can_decide
from kymograph.claims.files import OWN_STUDY, read_claims
from kymograph.claims.logged import Registration, log_registration, registrations
from kymograph.claims.pairing import quantities
from kymograph.errors import KymographError
from kymograph.runs.files import make_directory
from kymograph.runs.log import Log
from kymograph.runs.plan_file import read_plan
from kymograph.runs.record import STATUS
from kymograph.runs.spec import slug
from kymograph.statistics.sign_flips import LEAST_SEEDS, smallest_p
from kymograph.streams import fixed_seeds
from kymograph.studies.base import Study

LEAST_REGISTERED = 10
"""How many seeds a registration has at least: a pilot of three is an interim look, and not a new design."""


def registered_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """Returns the seeds of a first sweep, filled up to ten from the fixed list.

    >>> registered_seeds([7, 42])
    (7, 42, 123, 456, 55619, 40238, 55184, 50541, 63633, 74992)
    """
    more = (seed for seed in fixed_seeds(LEAST_REGISTERED) if seed not in seeds)
    return (*seeds, *islice(more, max(LEAST_REGISTERED - len(seeds), 0)))


def register_study(root: Path, study: Study, seeds: Sequence[int]) -> None:
    """Registers the study's claims with the directory, before any of its runs is computed."""
    claims = list(study.claims())
    if claims:
        chosen = registered_seeds(seeds)
        _check_family(study.name, claims, len(chosen), Log.read(root))
        registration.register(root, claims, {study.name: _begun(root, study.name)})
        log_registration(root, study.name, claims, chosen)


def register_file(root: str | Path, path: str | Path, seeds: Sequence[int] = ()) -> list[Registration]:
    """Registers the claims of a file with a directory of runs, best before it has any; returns the registrations."""
    claims = read_claims(path)
    directory = Path(root)
    make_directory(directory)
    studies = list(dict.fromkeys(claim.study for claim in claims))
    chosen = registered_seeds(seeds)
    for study in studies:
        _check_family(study, [claim for claim in claims if claim.study == study], len(chosen), Log.read(directory))
    registration.register(directory, claims, {study: _begun(directory, study) for study in studies})
    return [
        log_registration(directory, study, [claim for claim in claims if claim.study == study], chosen)
        for study in studies
    ]


def _check_family(study: str, claims: Sequence[Claim], seeds: int, history: Log) -> None:
    """Raises if so many seeds cannot decide all the claims of a study at once."""
    known = registrations(history, study)
    count = len({name for one in known for name in one.claims} | {registration.key(claim) for claim in claims})
    seeds = len(known[0].seeds) if known else seeds
    strictest = min(claim.alpha for claim in claims)
    if not can_decide(seeds, count, strictest):
        raise KymographError(
            f"{seeds} seeds cannot decide the {count} claims of {study} together: the exact test reaches no p below "
            f"{smallest_p(seeds):.2g}, and {strictest:g} / {count} is needed; register fewer claims or more seeds"
        )


def planning_note(study: Study, arms: Collection[str], seeds: int) -> str | None:
    """Returns why so many seeds cannot decide the study's claims about these arms, if they cannot."""
    ready = [claim for claim in study.claims() if {quantity.arm for quantity in quantities(claim)} <= set(arms)]
    if not ready:
        return None
    if seeds < LEAST_SEEDS:
        few = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
        return f"{few} too few for a verdict: claims need at least {LEAST_SEEDS}"
    families = [claim.family for claim in ready]
    largest = max(families, key=families.count)
    if not can_decide(seeds, families.count(largest), ready[0].alpha):
        return (
            f"{seeds} seeds cannot decide the {families.count(largest)} claims of {largest}: "
            f"the exact test reaches no p below {smallest_p(seeds):.2g}"
        )
    return None


def _begun(root: Path, study: str) -> int:
    """Counts the runs of a study (or of all, for claims of no study) that were planned or have ended below ``root``."""
    every = study == OWN_STUDY
    ended = sum(1 for _ in root.glob(f"{'*' if every else slug(study)}/*/{STATUS}"))
    planned = sum(1 for run in read_plan(root) if every or run.study == study)
    return max(ended, planned)
