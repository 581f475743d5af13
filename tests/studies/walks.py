"""A study of random walks: four arms with series of every kind, for tests of what reads, lists and exports runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from kymograph import Arm, Claim, RunResult, RunSeries, RunSpec, Study
from kymograph._runs.spec import ADDED_LATER
from kymograph._sweep.compute import Workplace

REFERENCE = "tests.studies.walks:Walks"
STEPS = 20
"""Steps per epoch."""


@dataclass(frozen=True)
class WalksConfig:
    """The settings."""

    clip: str = "none"
    """Whether steps are clipped. [set by the arm]"""
    epochs: int = 2
    """How long to walk."""
    lr: float = 0.1
    """How large a step is."""
    vary: str = field(default="all", metadata=ADDED_LATER)
    """What the seed varies; it changes nothing."""


class Walks(Study[WalksConfig]):
    """Random walks of steps that are clipped or not."""

    name = "walks"
    question = "How far do walks go?"
    config_type = WalksConfig
    largest_stack = 16
    headlines: ClassVar[Mapping[str, str]] = {"final_loss": "final loss"}

    def arms(self) -> Sequence[Arm]:
        """Two kinds of walks, each with and without clipping."""
        return [
            Arm(f"{kind}/{how}", treatment={"clip": clip}, default=True)
            for kind in ("extreme", "moderate")
            for how, clip in (("no_clip", "none"), ("clip", "norm"))
        ]

    def train(self, specs: Sequence[RunSpec[WalksConfig]], work: Workplace) -> list[RunResult]:
        """Walks every walk."""
        return [self.walk(spec) for spec in specs]

    def walk(self, spec: RunSpec[WalksConfig]) -> RunResult:
        """The walk as ``loss``, in float32; the size of its steps; an accuracy per class, one absent at first."""
        config, draw = spec.config, np.random.default_rng([spec.seed, len(spec.arm)])
        steps = draw.normal(0, config.lr, STEPS * config.epochs)
        steps = np.clip(steps, -config.lr, config.lr) if config.clip == "norm" else steps
        loss = (5 + steps.cumsum()).astype(np.float32)
        accuracy = draw.random((2, 4))
        accuracy[0, 2] = np.nan
        series = {
            "loss": RunSeries(np.arange(len(steps)), loss),
            "grad_norm": RunSeries(np.arange(len(steps)), np.abs(steps)),
            "accuracy": RunSeries(np.array([0, STEPS]), accuracy, tuple(f"class_{n}" for n in range(4))),
        }
        return RunResult(series, {"final_loss": float(loss[-1])})

    def claims(self) -> Sequence[Claim]:
        """One claim."""
        return [replace(Claim.compare("final_loss", "extreme/clip", "<", "extreme/no_clip"), study=self.name)]
