"""A user's own study, one of whose arms fails or kills its process; used as ``tests.studies.failing:Failing``."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph import Arm, RunResult, RunSeries, RunSpec, Study


@dataclass(frozen=True)
class FailingConfig:
    """The settings of the failing study."""

    behaviour: str = "work"
    """What a run does."""


class Failing(Study[FailingConfig]):
    """A study whose arms work, raise, or die."""

    name = "failing"
    question = "What happens when a run fails?"
    version = 1
    config_type = FailingConfig
    largest_stack = 8

    def arms(self) -> Sequence[Arm]:
        """One arm per behaviour."""
        return [Arm(b, f"runs that {b}", {"behaviour": b}, default=b != "die") for b in ("work", "raise", "die")]

    def stack_key(self, config: FailingConfig) -> tuple:
        """Dying runs are apart, the others share a stack."""
        return (config.behaviour == "die",)

    def steps(self, config: FailingConfig) -> int:
        """One step."""
        return 1

    def train(self, specs: Sequence[RunSpec], work: Any) -> list[RunResult]:
        """Behaves."""
        if any(spec.config.behaviour == "die" for spec in specs):
            os.kill(os.getpid(), signal.SIGKILL)
        if any(spec.config.behaviour == "raise" and spec.seed == 2 for spec in specs):
            raise RuntimeError("the second seed is cursed\nand this line is not shown")
        return [RunResult({"x": RunSeries(np.arange(2), np.ones(2))}, {"seed": spec.seed}) for spec in specs]
