"""User-defined studies that say where their data is, whose results cannot be written, or that are odd."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kymograph import Arm, RunResult, RunSeries, RunSpec, Study
from kymograph._sweep.compute import Workplace


@dataclass(frozen=True)
class NoSettings:
    """No settings."""


class Placed(Study[NoSettings]):
    """Stores where its data is."""

    name = "placed"
    question = "Where is the data?"
    config_type = NoSettings
    largest_stack = 8

    def arms(self) -> Sequence[Arm]:
        """One arm."""
        return [Arm("only", default=True)]

    def train(self, specs: Sequence[RunSpec[NoSettings]], work: Workplace) -> list[RunResult]:
        """Returns the directory."""
        return [self.result(spec, str(work.data_dir)) for spec in specs]

    def result(self, spec: RunSpec[NoSettings], data_dir: str) -> RunResult:
        """One series and the directory."""
        return RunResult({"x": RunSeries(np.arange(2), np.ones(2))}, {"data_dir": data_dir})


class Unstorable(Placed):
    """Counts how often it trains; afterwards nothing can be written any more, as on a full disk."""

    name = "unstorable"

    def train(self, specs: Sequence[RunSpec[NoSettings]], work: Workplace) -> list[RunResult]:
        """Trains, and puts a file where the runs' directory was."""
        with open(os.environ["KYMOGRAPH_TEST_COUNT"], "a") as file:
            file.write("trained\n")
        assert work.root is not None
        shutil.rmtree(work.root / self.name, ignore_errors=True)
        (work.root / self.name).write_text("in the way")
        return super().train(specs, work)


class Odd(Placed):
    """Returns numbers of a type that is not stored, at one seed."""

    name = "odd"

    def result(self, spec: RunSpec[NoSettings], data_dir: str) -> RunResult:
        """Complex numbers at seed 2."""
        kind = np.complex128 if spec.seed == 2 else np.float64
        return RunResult({"x": RunSeries(np.arange(2), np.ones(2, kind))}, {"data_dir": data_dir})
