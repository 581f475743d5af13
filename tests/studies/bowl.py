"""A study whose best rate is known: the loss is a bowl in the logarithm of the rate, with noise from the seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kymograph import Arm, Claim, RunResult, RunSeries, RunSpec, Study, Tuned
from kymograph._sweep.compute import Workplace

REFERENCE = "tests.studies.bowl:Bowl"
OPTIMA = {"slow": 0.03, "fast": 0.1, "edge": 0.5, "broken": 0.1}
RULE = Tuned("rate", (0.3, 0.1, 0.03, 0.01), by="loss", best="lowest", seeds=2)


@dataclass(frozen=True)
class BowlConfig:
    """The settings."""

    shape: str = "slow"
    """Which bowl. [set by the arm]"""
    rate: float = 0.01
    """Where in the bowl."""
    depth: float = 0.0
    """How deep the bowl of `fast` is."""


class Bowl(Study[BowlConfig]):
    """Loss (log rate - log optimum) ** 2, noise, and a smaller loss in the arm `fast`."""

    name = "bowl"
    question = "Which bowl is deeper?"
    config_type = BowlConfig
    largest_stack = 16
    headlines: ClassVar[Mapping[str, str]] = {"loss": "loss"}
    tune = RULE

    def arms(self) -> Sequence[Arm]:
        """A bowl each."""
        return [Arm(shape, shape, {"shape": shape}, default=shape in ("slow", "fast")) for shape in OPTIMA]

    def train(self, specs: Sequence[RunSpec[BowlConfig]], work: Workplace) -> list[RunResult]:
        """Computes the loss of every run."""
        return [self.roll(spec) for spec in specs]

    def roll(self, spec: RunSpec[BowlConfig]) -> RunResult:
        """One loss; it is infinite in the arm `broken`, and at the largest rate in the arm `slow`."""
        config = spec.config
        noise = float(np.random.default_rng([spec.seed, list(OPTIMA).index(config.shape)]).normal(0, 0.1))
        loss = (math.log(config.rate) - math.log(OPTIMA[config.shape])) ** 2 + 5 + noise
        loss -= config.depth if config.shape == "fast" else 0.0
        if config.shape == "broken" or (config.shape == "slow" and config.rate >= 0.3):
            loss = math.inf
        return RunResult({"loss": RunSeries(np.arange(1), np.array([loss]))}, {"loss": loss})

    def claims(self) -> Sequence[Claim]:
        """One claim about each pair."""
        pairs = (("fast", "slow"), ("edge", "slow"), ("broken", "slow"))
        made = [Claim.compare("loss", left, "<", right, scale="difference") for left, right in pairs]
        return [replace(claim, study=self.name) for claim in made]
