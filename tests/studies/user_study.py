"""A user's own study in one file, as text: tests write it to a directory that is not a package."""

from __future__ import annotations

from pathlib import Path

HELPER = """
SCALE = 1.0
"""
STUDY = '''
"""Does a decay end lower than none?"""

from dataclasses import dataclass

import numpy as np
from local_helper import SCALE

from kymograph import Arm, Check, Claim, Measure, Side, RunResult, RunSeries, SeriesDisplay, Study


@dataclass(frozen=True)
class DecayConfig:
    """The settings."""

    rate: float = 0.5
    """How much is lost per step. [set by the arm]"""
    steps: int = 5
    """Steps."""


class Decay(Study[DecayConfig]):
    """Exponential decay with noise."""

    name = "decay"
    question = "Does a decay end lower than none?"
    config_type = DecayConfig
    headlines = {"final": "final level"}
    series = [
        SeriesDisplay("level", "The level", "units", log=True),
        SeriesDisplay("profile", "The profile", "units", forms=("kymograph", "profile")),
    ]
    time = "second"
    qualifying = ("steps",)

    def arms(self):
        slow = Arm("slow", "loses little", {"rate": 0.1}, default=True)
        return [slow, Arm("fast", "loses much", {"rate": 0.9}, default=True)]

    def steps(self, config):
        return config.steps

    def train(self, specs, work):
        return [self.one(spec) for spec in specs]

    def one(self, spec):
        draw = np.random.default_rng([spec.seed, spec.arm == "fast"])
        level = SCALE * (1 + 0.1 * draw.random()) * (1 - spec.config.rate) ** np.arange(spec.config.steps)
        steps = np.arange(spec.config.steps)
        series = {
            "level": RunSeries(steps, level),
            "profile": RunSeries(steps, level[:, None] * np.array([1.0, 2.0]), ("top", "bottom")),
        }
        return RunResult(series, {"final": float(level[-1])})

    def claims(self):
        final = Measure("final")
        return [
            Claim("fast ends lower", "decay", "the fast decay ends lower", Side("fast", final),
                  Side("slow", final), "less", 1.5, "log ratio", origin="the file")
        ]

    def figures(self):
        return {"decay-own": draw_own}


def draw_own(store):
    """Draws the level."""
    from kymograph._pictures.curves import draw_curves
    from kymograph._runs.declaration import Declaration

    return draw_curves(store, Declaration("decay"))
'''


def write_study(directory: Path) -> Path:
    """Writes the study and the local module it imports; returns the study's file."""
    (directory / "local_helper.py").write_text(HELPER)
    path = directory / "decay_study.py"
    path.write_text(STUDY)
    return path
