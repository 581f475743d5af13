"""A study of nothing: two arms whose numbers come from the seed alone, for tests of the judge's procedure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph import Arm, Claim, Measure, RunResult, RunSeries, RunSpec, Side, Study
from kymograph._sweep.compute import Workplace

REFERENCE = "tests.studies.tossing:Tossing"


@dataclass(frozen=True)
class TossingConfig:
    """The settings."""

    coin: str = "heads"
    """Which side. [set by the arm]"""
    shift: float = 0.0
    """How much the arm `tails` is shifted."""
    faces: int = 2
    """How many faces."""


class Tossing(Study[TossingConfig]):
    """Noise, and an effect if one is asked for."""

    name = "tossing"
    question = "Is there anything?"
    config_type = TossingConfig
    largest_stack = 64
    headlines = {"x": "x"}

    def arms(self) -> Sequence[Arm]:
        """Two sides of a coin."""
        return [Arm(side, side, {"coin": side}, default=True) for side in ("heads", "tails")]

    def train(self, specs: Sequence[RunSpec[TossingConfig]], work: Workplace) -> list[RunResult]:
        """Draws one number per run."""
        return [self.toss(spec) for spec in specs]

    def toss(self, spec: RunSpec[TossingConfig]) -> RunResult:
        """One number."""
        config = spec.config
        draw = np.random.default_rng([spec.seed, config.coin == "tails", config.faces])
        x = float(draw.standard_normal()) + (config.shift if config.coin == "tails" else 0.0)
        return RunResult({"x": RunSeries(np.arange(1), np.array([x]))}, {"x": x})

    def claims(self) -> Sequence[Claim]:
        """One claim."""
        return [claim("tails is larger")]


def claim(name: str, margin: float = 0.0) -> Claim:
    """Returns the claim that tails exceeds heads, under a name of its own."""
    x = Measure("x")
    return Claim(name, "tossing", "tails exceeds heads", Side("tails", x), Side("heads", x),
                 "greater", margin, origin="a test")  # fmt: skip
