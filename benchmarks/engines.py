"""What an engine costs: its start-up, and its overhead per stack, measured with stacks that compute nothing."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.declaration import Arm
from kymograph._runs.provenance import hardware, versions
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._studies.study import Study
from kymograph._sweep.compute import Workplace
from kymograph._sweep.engines.base import ENGINES

STACKS = {"slurm": 8}
MANY = 100
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {"slurm": {"": {}, f" --per-job {MANY}": {"per_job": MANY}}}
NEEDS = {"dask": ("Dask", lambda: importlib.util.find_spec("distributed") is not None),
         "slurm": ("Slurm", lambda: _slurm_answers())}  # fmt: skip


def _slurm_answers() -> bool:
    """Returns whether a Slurm controller answers here; the commands alone may be installed without one."""
    if shutil.which("scontrol") is None:
        return False
    return subprocess.run(["scontrol", "ping"], check=False, capture_output=True).returncode == 0


@dataclass(frozen=True)
class NoWorkConfig:
    """No settings."""


class NoWork(Study[NoWorkConfig]):
    """Stacks of one run that compute nothing, so that only overhead is left."""

    name = "no-work"
    question = "What does an engine cost?"
    config_type = NoWorkConfig
    largest_stack = 1

    def arms(self) -> Sequence[Arm]:
        """One arm."""
        return [Arm("only", default=True)]

    def train(self, specs: Sequence[RunSpec[NoWorkConfig]], work: Workplace) -> list[RunResult]:
        """Returns results that are the seeds."""
        step = np.arange(1)
        return [RunResult({"x": RunSeries(step, np.ones(1))}, {"x": float(spec.seed)}) for spec in specs]


@dataclass(frozen=True)
class EngineCost:
    """Seconds of sweeps with one stack and with ``stacks``, by one worker."""

    engine: str
    stacks: int
    one: float
    many: float

    @property
    def per_stack(self) -> float:
        """Seconds that each further stack takes."""
        return (self.many - self.one) / (self.stacks - 1)

    @property
    def start_up(self) -> float:
        """Seconds before the first stack is computed and after the last one."""
        return max(0.0, self.one - self.per_stack)


def bench_engines() -> int:
    """Times every engine that can be used on this machine, and prints a table; returns the exit code."""
    rows = ["| engine | start-up | per stack |", "|---|---|---|"]
    for engine in ENGINES.names():
        name, usable = NEEDS.get(engine, ("", lambda: True))
        if not usable():
            rows.append(f"| `{engine}` | {name} cannot be used here | |")
            continue
        for words, options in VARIANTS.get(engine, {"": {}}).items():
            stacks = MANY if words else STACKS.get(engine, MANY)
            print(f"{engine}{words}: {stacks} stacks", file=sys.stderr, flush=True)
            cost = measure(engine, stacks, options)
            rows.append(f"| `{engine}{words}` | {cost.start_up:.1f} s | {1000 * cost.per_stack:.0f} ms |")
    about = f"{hardware()['processor']}, torch {versions()['torch']}"
    print("\n".join([*rows, "", f"Stacks of one run that compute nothing, one worker; {about}."]))
    return 0


def measure(engine: str, stacks: int, engine_options: dict[str, Any] | None = None) -> EngineCost:
    """Returns the cost of an engine from sweeps of one stack and of ``stacks``, with torch already imported."""
    with tempfile.TemporaryDirectory() as directory:
        run_sweep(f"{__name__}:NoWork", [0], ComputeOptions(Path(directory) / "first", "serial", 1, "cpu", None, True))
        seconds = []
        for number, count in enumerate((1, 1, stacks)):
            out = Path(directory) / str(number)
            options = ComputeOptions(out, engine, 1, "cpu", None, True, engine_options or {})
            started = time.perf_counter()
            done = run_sweep(f"{__name__}:NoWork", range(count), options)
            seconds.append(time.perf_counter() - started)
            assert len(done.store.finished) == count
    return EngineCost(engine, stacks, min(seconds[:2]), seconds[2])
