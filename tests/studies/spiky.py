"""A study with claims of every fate: one is supported, one fails its check, one is about arms that no test runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kymograph import Arm, Check, Claim, Measure, RunResult, RunSeries, RunSpec, Side, Study
from kymograph._claims.claim import Direction
from kymograph._sweep.compute import Workplace

REFERENCE = "tests.studies.spiky:Spiky"
ARMS = ("easy/no_clip", "easy/clip", "hard/no_clip", "hard/clip")
SPIKES = "gradients spike without clipping"
RARE = "rare accuracy is not worse under clipping"


@dataclass(frozen=True)
class SpikyConfig:
    """The settings."""

    task: str = "easy"
    """Which task. [set by the arm]"""
    clip: bool = False
    """Whether gradients are clipped. [set by the arm]"""
    lr: float = 0.1
    """The learning rate; a run diverges above 1, and fails above 10."""
    n_rare: int = 6
    """How many rare samples there are."""


class Spiky(Study[SpikyConfig]):
    """Peaks that clipping removes, a loss, and the norms of a stream of three layers."""

    name = "spiky"
    question = "Does clipping remove the spikes?"
    config_type = SpikyConfig
    largest_stack = 64

    def arms(self) -> Sequence[Arm]:
        """Two tasks, with and without clipping."""
        pairs = [(arm, *arm.split("/")) for arm in ARMS]
        return [Arm(arm, arm, {"task": task, "clip": how == "clip"}, default=True) for arm, task, how in pairs]

    def train(self, specs: Sequence[RunSpec[SpikyConfig]], work: Workplace) -> list[RunResult]:
        """Draws the numbers of every run."""
        if any(spec.config.lr > 10 for spec in specs):
            raise RuntimeError("the learning rate is too large")
        return [self.draw(spec) for spec in specs]

    def draw(self, spec: RunSpec[SpikyConfig]) -> RunResult:
        """Noise from seed and arm, a factor of four between clipped and other peaks, and streams of equal origin."""
        config = spec.config
        noise = np.random.default_rng([spec.seed, ARMS.index(spec.arm)]).normal(0, 0.1, (5, 3))
        scale = 1.0 if config.clip else 4.0
        peak = math.inf if config.lr > 1 else scale * math.exp(noise[0, 0])
        stream = np.exp(noise) * scale
        stream[:, 0] = 1.0
        steps = np.arange(5)
        series = {
            "loss": RunSeries(steps, np.exp(noise[:, 0])),
            "stream": RunSeries(steps, stream, ("h_0", "h_1", "h_2")),
        }
        summary = {"peak": peak, "rare_accuracy": 0.2 + noise[1, 0], "clipped": float(config.clip) * (1 + noise[2, 0])}
        return RunResult(series, {**summary, "finite": math.isfinite(peak)})

    def claims(self) -> Sequence[Claim]:
        """The claims of this module, which tests replace."""
        return claims()


def claims() -> list[Claim]:
    """Returns two findings on the easy task, one on the hard task, and a manipulation check."""
    learned = Check("the rare class can be learned", Side("easy/no_clip", Measure("rare_accuracy")), least=0.5)

    def claim(name: str, measure: str, arms: tuple[str, str | float], direction: Direction, margin: float) -> Claim:
        left, right = (arm if isinstance(arm, float) else Side(arm, Measure(measure)) for arm in arms)
        assert isinstance(left, Side)
        return Claim(name, "spiky", name, left, right, direction, margin, origin="a test")

    peaks = [
        claim(name, "peak", (f"{task}/no_clip", f"{task}/clip"), "greater", 1.5)
        for name, task in ((SPIKES, "easy"), (f"{SPIKES}, hard", "hard"))
    ]
    rare = claim(RARE, "rare_accuracy", ("easy/clip", "easy/no_clip"), "not less", 0.1)
    fires = claim("clipping fires", "clipped", ("easy/clip", 0.0), "greater", 0.0)
    return [
        *(replace(peak, scale="log ratio") for peak in peaks),
        replace(rare, checks=(learned,)),
        replace(fires, kind="manipulation check"),
    ]
