"""A study whose numbers are sums of independent draws, one per source of variance, of known standard deviations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kymograph import Arm, Claim, Measure, RunResult, RunSeries, RunSpec, Side, Study
from kymograph._runs.spec import ADDED_LATER
from kymograph._sweep.compute import Workplace

REFERENCE = "tests.studies.varying:Varying"
FIXED = 42
SD = {"initialisation": 0.3, "order": 0.02, "feedback": 0.05}
"""Of the logarithm of `size`, in the arm `learned`; in the arm `exact` feedback does nothing."""


@dataclass(frozen=True)
class VaryingConfig:
    """The settings."""

    rule: str = "learned"
    """Which arm. [set by the arm]"""
    epochs: int = 1
    """How long."""
    vary: Literal["all", "initialisation", "order", "feedback"] = dataclasses.field(default="all", metadata=ADDED_LATER)
    """What the seed decides."""


class Varying(Study[VaryingConfig]):
    """Numbers whose sources of variance are known."""

    name = "varying"
    question = "Where does the variance come from?"
    config_type = VaryingConfig
    largest_stack = 64
    headlines = {"size": "size", "tilt": "tilt", "converged": "converged"}

    def arms(self) -> Sequence[Arm]:
        """One arm that has feedback, and one that has none."""
        return [Arm(rule, rule, {"rule": rule}, default=True) for rule in ("learned", "exact")]

    def train(self, specs: Sequence[RunSpec[VaryingConfig]], work: Workplace) -> list[RunResult]:
        """Draws every source's part of the numbers."""
        return [_drawn(spec) for spec in specs]

    def claims(self) -> Sequence[Claim]:
        """Sizes are compared as ratios."""
        size = Measure("size")
        return [
            Claim("learned is larger", self.name, "learned is ten times larger",
                  Side("learned", size), Side("exact", size), "greater", 10.0, "log ratio", origin="a test")
        ]  # fmt: skip


def _drawn(spec: RunSpec[VaryingConfig]) -> RunResult:
    config = spec.config
    log_size, tilt = math.log(100.0 if config.rule == "learned" else 1.0), 0.0
    for index, (source, sd) in enumerate(SD.items()):
        if config.rule == "exact" and source == "feedback":
            continue
        seed = spec.seed if config.vary in ("all", source) else FIXED
        one, other = np.random.default_rng([seed, index]).standard_normal(2)
        log_size, tilt = log_size + sd * one, tilt + 0.1 * other
    size = math.exp(log_size)
    return RunResult(
        {"size": RunSeries(np.arange(1), np.array([size]))},
        {"size": size, "half_size": size / 2, "tilt": float(tilt), "converged": True},
    )
