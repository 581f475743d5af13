"""A user's own study whose runs wait for a file, so that a test decides when each ends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph import Arm, RunResult, RunSeries, RunSpec, Study

GATE = "KYMOGRAPH_TEST_GATE"


@dataclass(frozen=True)
class GatedConfig:
    """No settings but one."""

    steps: int = 10
    """Steps of a run."""


class Gated(Study[GatedConfig]):
    """Runs that go through half their steps, wait for the file SEED in the directory of the gate, and end."""

    name = "gated"
    question = "When may I go on?"
    version = 1
    config_type = GatedConfig
    largest_stack = 1

    def arms(self) -> Sequence[Arm]:
        """One arm."""
        return [Arm("wait", "waits", default=True)]

    def stack_key(self, config: GatedConfig) -> tuple:
        """Nothing to tell apart."""
        return ()

    def steps(self, config: GatedConfig) -> int:
        """As configured."""
        return config.steps

    def train(self, specs: Sequence[RunSpec], work: Any) -> list[RunResult]:
        """Waits."""
        work.tick(5)
        work.say("halfway")
        while not (Path(os.environ[GATE]) / str(specs[0].seed)).exists():
            time.sleep(0.02)
        work.tick(5)
        return [RunResult({"x": RunSeries(np.arange(2), np.ones(2))}, {"seed": spec.seed}) for spec in specs]
