"""A study of pure noise: two arms of random numbers, which `kymograph selftest` takes from claims to verdicts.

It asks no real question, so it is neither registered nor listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kymograph.claims.claim import Claim, Measure, Quantity
from kymograph.runs.declaration import Arm
from kymograph.runs.record import RunResult, RunSeries
from kymograph.runs.spec import RunSpec
from kymograph.streams import stream_seed
from kymograph.studies.base import Study
from kymograph.sweep.compute import Workplace

REFERENCE = f"{__name__}:Noise"
CLAIMS = 5
"""Enough that some claim would be wrong in about one world in five if the family were not corrected."""


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
    """Normal numbers that depend on world, seed and arm, and differ between the arms by the effect only."""

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
                f"{name} is larger", self.name, "own", f"{name} is larger in the treated arm", "the selftest",
                Quantity("treated", Measure(name)), Quantity("control", Measure(name)), "greater", 0.0,
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
