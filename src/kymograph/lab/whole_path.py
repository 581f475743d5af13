"""Rows of the selftest that go the whole way: claims are registered, runs computed and stored, directories judged.

Every world is a temporary directory in which the functions behind `kymograph register`, `run` and `judge` work on a
study of random numbers. Everything between a claim and its verdict takes part: the log, the registered seeds and
settings, the looks, records and checksums, pairing, the family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kymograph.claims.design import Design
from kymograph.claims.selftest.false_verdicts import ALPHA
from kymograph.claims.selftest.looks import at_any_look, seeds_text, stopped
from kymograph.claims.selftest.many_decisions import ManyDecisions
from kymograph.claims.selftest.rows import RateBound, Row, measured
from kymograph.claims.selftest.worlds import Simulation
from kymograph.claims.verdict import Outcome
from kymograph.errors import KymographError
from kymograph.lab.judge import judge
from kymograph.lab.noise_study import CLAIMS, REFERENCE
from kymograph.lab.register import register_claims
from kymograph.lab.run import run
from kymograph.runs.processes import temporary_directory
from kymograph.streams import stream_seed
from kymograph.studies.loading import load_study

Follow = Callable[[Iterable[int], str], Iterable[int]]
"""Passes the numbers of worlds through, and shows progress under a title."""
FIXED, SEQUENTIAL = Design((10,)), Design((10, 15))
EFFECT = 1.5
"""In standard deviations of the differences."""
LEAST_POWER = 0.88
ONE_IN = 40
"""A directory takes a thousand times as long as a simulated world, so there are fewer."""


def unfollowed(numbers: Iterable[int], title: str) -> Iterable[int]:
    """Passes the numbers through and shows nothing."""
    return numbers


def whole_path(simulation: Simulation, follow: Follow = unfollowed) -> Iterator[Row]:
    """Yields how often directories without an effect get a wrong verdict, and those with one the right verdicts."""
    count = max(1, simulation.worlds // ONE_IN)
    world = f"whole path, no effect, {CLAIMS} claims"
    looks = judged_directories(FIXED, 0.0, follow(range(count), world), simulation.seed)
    yield measured(world, FIXED.sizes[-1], looks[-1], "any direction", looks[-1].directed, ALPHA)
    world = f"whole path, no effect, {CLAIMS} claims, {SEQUENTIAL}"
    looks = judged_directories(SEQUENTIAL, 0.0, follow(range(count), world), simulation.seed)
    seeds = seeds_text(looks, SEQUENTIAL.sizes)
    yield measured(world, seeds, stopped(looks), "any direction at any look", at_any_look(looks), ALPHA)
    world = f"whole path, effect of {EFFECT:g} sd, {CLAIMS} claims"
    (found,) = judged_directories(FIXED, EFFECT, follow(range(max(1, count // 4)), world), simulation.seed)
    right, bound = np.logical_and.reduce(found.supported, axis=1), RateBound(least=LEAST_POWER)
    yield measured(world, FIXED.sizes[-1], found, "all SUPPORTED", right, bound, "power")


def judged_directories(design: Design, effect: float, numbers: Iterable[int], seed: int) -> list[ManyDecisions]:
    """Returns the decisions after every look of the design, in a directory for each of the ``numbers``."""
    names = ("whole path", str(design), f"{effect:g}")
    outcomes = [judged_at_looks(design, effect, stream_seed(seed, *names, str(number))) for number in numbers]
    kinds = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.EQUIVALENT)
    return [
        ManyDecisions(*(np.array([[one is kind for one in world] for world in look]) for kind in kinds))
        for look in zip(*outcomes, strict=True)
    ]


def judged_at_looks(design: Design, effect: float, world: int) -> list[list[Outcome]]:
    """Returns the outcomes of all claims after every look, in a directory of its own."""
    settings: dict[str, Any] = {"world": world, "effect": effect * math.sqrt(2)}  # a difference has twice the variance
    found = []
    with temporary_directory("selftest") as out:
        if design.sequential:
            study = load_study(REFERENCE)
            register_claims(out, study.claims(), looks=design.sizes, settings=settings, studies=[study])
        for size in design.sizes:  # a fixed design is registered by its first sweep
            run(REFERENCE, n_seeds=size, out=out, device="cpu", quiet=True, **settings)
            found.append(_outcomes(out))
    return found


def _outcomes(out: str) -> list[Outcome]:
    """Returns the outcomes of all claims; raises if one is INVALID or not registered, as it could never be wrong."""
    verdicts = judge(out)
    for verdict in verdicts:
        if verdict.outcome is Outcome.INVALID or not verdict.registration.startswith("registered"):
            how = f"{verdict.outcome}, {verdict.registration}: {verdict.reason}"
            raise KymographError(f"the selftest's own runs could not be judged ({how})")
    if len(verdicts) != CLAIMS:
        raise KymographError(f"{len(verdicts)} of the selftest's own {CLAIMS} claims were judged")
    return [verdict.outcome for verdict in verdicts]
