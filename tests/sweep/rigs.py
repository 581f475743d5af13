"""What each engine needs to be tested: a cluster that runs, and the options that lead there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kymograph
from kymograph._experiments.running import SweepResult, run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._sweep.code_loading import CodeReference
from kymograph._sweep.compute import RunOutcome
from kymograph._sweep.engines.base import choose_engine
from kymograph._sweep.orders import Order, Stack, orders_for
from kymograph._sweep.progress import Progress

STUDIES = Path(__file__).parents[1] / "studies"
NOTES = "KYMOGRAPH_TEST_NOTES"


@dataclass(frozen=True)
class Rig:
    """An engine and its options."""

    engine: str
    options: Mapping[str, Any] = field(default_factory=dict)
    retries: int | None = None
    """How often it gives a stack to another worker; None: it does not."""

    def run(self, study: Path, seeds: Sequence[int], out: Path, **more: Any) -> SweepResult:
        """Runs the study in this process."""
        options = ComputeOptions(out, self.engine, 2, "cpu", more.pop("data_dir", None), True, self.options)
        return run_sweep(str(study), seeds, options, **more)

    def start(self, study: Path, seeds: Sequence[int], out: Path, *more: str) -> subprocess.Popen:
        """Runs the study by the command line, in a process of its own."""
        given = [f"--{name.replace('_', '-')}={value}" for name, value in self.options.items()]
        command = ["run", str(study), "--seeds", *map(str, seeds), "--dir", str(out), "--engine", self.engine,
                   "--workers", "2", "--device", "cpu", "--quiet", *given, *more]  # fmt: skip
        return subprocess.Popen([sys.executable, "-m", "kymograph", *command], stdout=subprocess.DEVNULL)

    def compute(self, orders: Sequence[Order]) -> list[RunOutcome]:
        """Has the engine compute some orders, without anything around it."""
        engine = choose_engine(self.engine, len(orders), 2, "cpu", self.options)
        found = engine.run(orders, Progress("", 1, 1, quiet=True))
        return [outcome for outcomes in found for outcome in outcomes]


def copy_study(directory: Path) -> Path:
    """Copies the contract's study, and its helper, to a directory that no worker knows of."""
    directory.mkdir()
    for name in ("contract_study.py", "contract_helper.py"):
        shutil.copy(STUDIES / name, directory / name)
    return directory / "contract_study.py"


def orders_of(study: Path, seeds: Sequence[int], out: Path, data_dir: Path | None = None) -> list[Order]:
    """Returns an order per seed."""
    out.mkdir(exist_ok=True)
    specs = kymograph.load_study(str(study)).specs(seeds)
    code = CodeReference("Contract", file=str(study))
    return orders_for(code, [Stack((spec,), (True,), 20) for spec in specs], out, (), "cpu", data_dir)


def trained() -> list[str]:
    """Returns the runs that were trained, once for each time."""
    notes = Path(os.environ[NOTES])
    return notes.read_text().splitlines() if notes.exists() else []


def contents(root: Path) -> dict[str, bytes]:
    """Returns the files of every finished run that hold numbers."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.name in ("arrays.safetensors", "summary.json") and not path.parent.name.startswith(".")
    }
