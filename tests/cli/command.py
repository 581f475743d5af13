"""Commands run in this process, and a small user-defined study for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kymograph._cli.main import main

QUICK = ("--n-samples", "60", "--epochs", "1", "--n-rare", "3", "--engine", "serial", "--quiet")
COIN = '''
from dataclasses import dataclass

import numpy as np

from kymograph import Arm, RunResult, RunSeries, Study


@dataclass(frozen=True)
class CoinConfig:
    """Settings of a `coin` run."""

    tosses: int = 4
    """How often the coin is tossed."""


class Coin(Study[CoinConfig]):
    """Tosses that need no torch."""

    name = "coin"
    question = "Does it land heads?"
    config_type = CoinConfig

    def arms(self):
        return [Arm("fair", "an honest coin", default=True), Arm("bent", "a bent one")]

    def train(self, specs, work):
        step = np.arange(specs[0].config.tosses)
        return [RunResult({"heads": RunSeries(step, step * 0.5)}, {"heads": 0.5}) for _ in specs]

    def figures(self):
        return {"coin-tosses": draw}


def draw(store):
    """Draws nothing at all."""
    from kymograph._pictures.canvas import sheet

    return sheet((2.0, 2.0), 1, 1)
'''


def call(*words: str) -> int:
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as exit_:
        main(words)
    return int(exit_.value.code or 0)


def write_coin(directory: Path, name: str = "coin_study.py") -> Path:
    """Writes the user-defined study `coin` to a file."""
    path = directory / name
    path.write_text(COIN)
    return path
