"""The whole selftest: the simulated rows, and those that go from registered claims over stored runs to verdicts.

A world of the second kind is a temporary directory in which the functions behind `kymograph register`, `run` and
`judge` work on a study of random numbers. Everything between a claim and its verdict takes part: the log, the
registered seeds and settings, the looks, records and checksums, pairing, the family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.decision import Decided
from kymograph._claims.design import Design
from kymograph._claims.judge import judge
from kymograph._claims.registration import register
from kymograph._claims.verdict import Outcome
from kymograph._errors import KymographError
from kymograph._experiments.running import run
from kymograph._io.processes import temporary_directory
from kymograph._runs.declaration import Arm
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._selftest import rates
from kymograph._selftest.rates import ALPHA, at_any_look, measured_at_looks
from kymograph._selftest.worlds import RateBound, Row, Simulation, measured
from kymograph._streams import stream_seed
from kymograph._studies.loading import load_study
from kymograph._studies.study import Study
from kymograph._sweep.compute import Workplace

REFERENCE = f"{__name__}:Noise"
CLAIMS = 5
"""Enough that some claim would be wrong in about one world in five if the family were not corrected."""
Follow = Callable[[Iterable[int], str], Iterable[int]]
"""Passes the numbers of worlds through, and shows progress under a title."""
FIXED, SEQUENTIAL = Design((10,)), Design((10, 15))
EFFECT = 1.5
"""In standard deviations of the differences."""
LEAST_POWER = 0.88
ONE_IN = 40
"""A directory takes a thousand times as long as a simulated world, so there are fewer."""


@dataclass(frozen=True)
class NoiseConfig:
    """Every setting of a run."""

    treated: bool = False
    """Whether the run gets the effect. [set by the arm]"""
    world: int = 0
    """The world's number, on which all random numbers depend."""
    effect: float = 0.0
    """How much larger the treated runs are, in standard deviations of a run."""


class Noise(Study[NoiseConfig]):
    """Normal numbers that depend on world, seed and arm, and differ between the arms by the effect only.

    It asks no real question, so it is neither registered nor listed.
    """

    name = "noise"
    question = "Is an effect found where there is none?"
    config_type = NoiseConfig
    largest_stack = 2**10

    names: ClassVar[tuple[str, ...]] = tuple(f"x{index}" for index in range(CLAIMS))

    def arms(self) -> Sequence[Arm]:
        """Returns the two arms."""
        return [Arm(name, name, {"treated": name == "treated"}, default=True) for name in ("control", "treated")]

    def train(self, specs: Sequence[RunSpec[NoiseConfig]], work: Workplace) -> list[RunResult]:
        """Draws the numbers of every run."""
        return [self._numbers(spec) for spec in specs]

    def claims(self) -> Sequence[Claim]:
        """Returns one claim per number: that it is larger in the treated arm."""
        return [
            Claim(
                f"{name} is larger", self.name, f"{name} is larger in the treated arm",
                Side("treated", Measure(name)), Side("control", Measure(name)), "greater", 0.0,
                origin="the selftest",
            )
            for name in self.names
        ]  # fmt: skip

    def _numbers(self, spec: RunSpec[NoiseConfig]) -> RunResult:
        config = spec.config
        draw = np.random.default_rng(stream_seed(spec.seed, "noise", str(config.world), spec.arm))
        numbers = draw.standard_normal(CLAIMS) + (config.effect if config.treated else 0.0)
        return RunResult(
            {"x": RunSeries(np.arange(1), numbers[:1])}, dict(zip(self.names, map(float, numbers), strict=True))
        )


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
    wrong = at_any_look(looks)
    yield measured_at_looks(world, looks, SEQUENTIAL.sizes, "any direction at any look", wrong, ALPHA)
    world = f"whole path, effect of {EFFECT:g} sd, {CLAIMS} claims"
    (decisions,) = judged_directories(FIXED, EFFECT, follow(range(max(1, count // 4)), world), simulation.seed)
    right, bound = np.logical_and.reduce(decisions.supported, axis=1), RateBound(least=LEAST_POWER)
    yield measured(world, FIXED.sizes[-1], decisions, "all SUPPORTED", right, bound, "power")


def judged_directories(design: Design, effect: float, numbers: Iterable[int], seed: int) -> list[Decided]:
    """Returns the decisions after every look of the design, in a directory for each of the ``numbers``."""
    names = ("whole path", str(design), f"{effect:g}")
    outcomes = [judged_at_looks(design, effect, stream_seed(seed, *names, str(number))) for number in numbers]
    kinds = (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.EQUIVALENT)
    return [
        Decided(*(np.array([[outcome is kind for outcome in world] for world in look]) for kind in kinds))
        for look in zip(*outcomes, strict=True)
    ]


def judged_at_looks(design: Design, effect: float, world: int) -> list[list[Outcome]]:
    """Returns the outcomes of all claims after every look, in a directory of its own."""
    settings: dict[str, Any] = {"world": world, "effect": effect * math.sqrt(2)}  # a difference has twice the variance
    outcomes = []
    with temporary_directory("selftest") as out:
        if design.sequential:
            study = load_study(REFERENCE)
            register(out, study.claims(), looks=design.sizes, settings=settings, studies=[study])
        for size in design.sizes:  # a fixed design is registered by its first sweep
            run(REFERENCE, n_seeds=size, out=out, device="cpu", quiet=True, **settings)
            outcomes.append(_outcomes(out))
    return outcomes


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


SIMULATED = (
    rates.no_effect,
    rates.at_the_margin,
    rates.refutation,
    rates.equivalence,
    rates.no_effects,
    rates.some_effects,
    rates.family_at_the_margin,
    rates.sequential,
    rates.peeking,
    rates.power_fixed,
    rates.power_sequential,
    rates.skewed,
    rates.skewed_equivalence,
    rates.skewed_at_the_margin,
    rates.rare_failures,
)
"""The rows that need no directory, in the order in which they are shown."""


def selftest(worlds: int, seed: int = 0, follow: Follow = unfollowed) -> Iterator[Row]:
    """Yields every row as soon as it is measured.

    Args:
        worlds: how many worlds of each kind are simulated; whole-path rows have one in forty.
        seed: the seed of the worlds.
        follow: shows the progress of the whole-path rows.
    """
    simulation = Simulation(worlds, seed)
    for group in SIMULATED:
        yield from group(simulation)
    yield from whole_path(simulation, follow)


def worst_limit(rows: Sequence[Row]) -> Row:
    """Returns the known limit with the highest rate of wrong verdicts."""
    return max((row for row in rows if row.kind == "limit"), key=lambda row: row.rate)
