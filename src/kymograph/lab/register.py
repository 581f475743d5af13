"""Registering claims with a directory before its runs exist, and what so many seeds can decide about them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kymograph.claims import registration
from kymograph.claims.claim import Claim
from kymograph.claims.decide import can_decide
from kymograph.claims.files import OWN_STUDY, read_claims
from kymograph.claims.pairing import quantities
from kymograph.runs.files import make_directory
from kymograph.runs.plan_file import read_plan
from kymograph.runs.record import STATUS
from kymograph.runs.spec import slug
from kymograph.statistics.sign_flips import LEAST_SEEDS, smallest_p
from kymograph.studies.base import Study


def register_study(root: Path, study: Study) -> None:
    """Registers the study's claims with the directory, before any of its runs is computed."""
    claims = list(study.claims())
    if claims:
        registration.register(root, claims, {study.name: _begun(root, study.name)})


def register_file(root: str | Path, path: str | Path) -> list[Claim]:
    """Registers the claims of a file with a directory of runs, best before it has any; returns them."""
    claims = read_claims(path)
    directory = Path(root)
    make_directory(directory)
    registration.register(directory, claims, {claim.study: _begun(directory, claim.study) for claim in claims})
    return claims


def planning_note(study: Study, arms: Collection[str], seeds: int) -> str | None:
    """Returns why so many seeds cannot decide the study's claims about these arms, if they cannot."""
    ready = [claim for claim in study.claims() if {quantity.arm for quantity in quantities(claim)} <= set(arms)]
    if not ready:
        return None
    if seeds < LEAST_SEEDS:
        return f"{seeds} seeds are too few for a verdict: claims need at least {LEAST_SEEDS}"
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
