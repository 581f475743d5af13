"""What commands cost in a directory of ten thousand runs, in CPU seconds, each with a limit.

The runs are tiny ones of `depth`: one stack is trained, and every record is written by the functions that write real
ones, with the stack's numbers changed a little from run to run. The ten thousand runs come in two shapes: a grid of
many settings with ten seeds each, and one setting with very many seeds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._runs.history import SWEEP
from kymograph._runs.log import DIRECTORY as LOG
from kymograph._runs.log import Log
from kymograph._runs.provenance import hardware
from kymograph._runs.record import RunResult, pack_record, store_record
from kymograph._runs.spec import RunSpec
from kymograph._streams import fixed_seeds

TINY = {"layers": 2, "width": 4, "steps": 6, "n_samples": 16, "batch_size": 4, "probe_every": 3, "probe_size": 4}
IDLE_SECONDS = 20.0
"""How long a watcher follows a directory in which nothing changes."""


@dataclass(frozen=True)
class Shape:
    """How many settings and seeds the five wirings of `depth` have."""

    name: str
    settings: int
    seeds: int

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return 5 * self.settings * self.seeds

    def fields(self, setting: int) -> dict[str, Any]:
        """Returns the settings of one sweep; each has its own learning rate."""
        return {**TINY, "lr": round(1e-3 * (1 + setting / 100), 6)}


SHAPES = (Shape("200 settings of 10 seeds", 200, 10), Shape("2,000 seeds", 1, 2000))


@dataclass(frozen=True)
class Measured:
    """What one command cost: seconds of CPU, a share of a core, or megabytes."""

    shape: str
    command: str
    cost: float
    limit: float
    unit: str = "s"

    @property
    def kept(self) -> bool:
        """Whether the limit is kept."""
        return self.cost < self.limit


def make_runs(root: Path, shape: Shape) -> None:
    """Writes the log, the declaration and the record of every run of ``shape`` below ``root``."""
    from kymograph._experiments.running import run_sweep
    from kymograph._experiments.stages import ComputeOptions, declare_stage
    from kymograph._runs.directory import Directory
    from kymograph._runs.provenance import provenance
    from kymograph._runs.store import Store
    from kymograph._studies.loading import load_study

    study = load_study("depth")
    seeds = fixed_seeds(shape.seeds)
    with tempfile.TemporaryDirectory() as trained:
        options = ComputeOptions(trained, "serial", quiet=True, device="cpu")
        run_sweep("depth", seeds[:1], options, fields=shape.fields(0))
        patterns = {run.arm: RunResult(run.series, run.summary) for run in Store.open(trained)}
    directory = Directory(root)
    for setting in range(shape.settings):
        specs = study.specs(seeds, None, shape.fields(setting))
        declare_stage(directory, study, specs, seeds, shape.fields(setting), {})
        origin = {**provenance("cpu", 1), "log": list(directory.log.heads)}
        for spec in specs:
            store_record(root, spec, pack_record(spec, _varied(patterns[spec.arm], spec), origin), 0.01)


def _noisy(values: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    return (values * draw.normal(1, 0.05, values.shape)).astype(values.dtype)


def _varied(pattern: RunResult, spec: RunSpec) -> RunResult:
    """Returns the pattern with every number changed by a few percent, at random, seeded by the run."""
    draw = np.random.default_rng([spec.seed, int(spec.id, 16)])
    series = {name: replace(numbers, value=_noisy(numbers.value, draw)) for name, numbers in pattern.series.items()}
    summary = {
        key: value * draw.normal(1, 0.05) if isinstance(value, float) else value
        for key, value in pattern.summary.items()
    }
    return RunResult(series, summary)


def measure(root: Path, shape: Shape) -> Iterator[Measured]:
    """Yields what every command costs in a directory that `make_runs` filled."""
    fields = shape.fields(0)
    settings = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    page = root.parent / f"{root.name}.html"
    commands = {
        "run, nothing to do": (["run", "depth", "--dir", str(root), "--n-seeds", str(shape.seeds), *settings], 3.0),
        "judge": (["judge", str(root)], 8.0),
        "report": (["report", str(root), "-o", str(page)], 10.0),
        "figure": (["figure", "--dir", str(root), "--where", f"lr={fields['lr']}"], 12.0),
        "show": (["show", "--dir", str(root)], 3.0),
        "show, by a last value": (["show", "--dir", str(root), "--sort", "series/loss"], 3.5),
        "watch": (["watch", str(root), "--once"], 2.0),
    }
    for name, (words, limit) in commands.items():
        cost = cpu_seconds(words)
        yield Measured(shape.name, name, cost, limit)
        if name == "report":
            yield Measured(shape.name, "report, size", page.stat().st_size / 1e6, 5.0, "MB")
    idle = cpu_seconds(["watch", str(root), "--follow"], IDLE_SECONDS + cost) - cost
    yield Measured(shape.name, "watch, nothing changes", max(idle, 0.0) / IDLE_SECONDS, 0.05, "of a core")


def cpu_seconds(words: Sequence[str], interrupt_after: float | None = None) -> float:
    """Returns the CPU seconds of a command and all processes that it waited for; raises if it fails."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kymograph", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    if interrupt_after is not None:
        time.sleep(interrupt_after)
        process.terminate()  # what a shell script starts in the background ignores SIGINT
    with process.stderr:
        said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 and interrupt_after is None:
        raise KymographError(f"`kymograph {' '.join(words[:2])}` ended with {process.returncode}: {said[-300:]}")
    return usage.ru_utime + usage.ru_stime


RECORDED = 10_000
"""How many runs one process records, and how many processes have written to the log of the other directory."""
PAIRED = 200
"""How many late runs are compared with as many early ones."""
_RECORD = """
import sys, time
import kymograph as ky
seed = 0
for line in sys.stdin:
    start = time.process_time()
    for _ in range(int(line)):
        with ky.record("loop", arm="only", seed=seed, config={"lr": 0.1}, out=sys.argv[1]) as run:
            for _ in run.steps(2):
                run.log(loss=1.0 / (seed + 1))
            run.summary(loss=1.0 / (seed + 1))
        seed += 1
    print(1e3 * (time.process_time() - start), flush=True)
"""


class Recorder:
    """A process that records runs of its own loop in a directory, as many at a time as it is told."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RECORD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *reason: object) -> None:
        self._process.communicate()

    def record(self, runs: int) -> float:
        """Records the next ``runs`` runs, and returns their CPU milliseconds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(runs, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def measure_recording(root: Path, runs: int = RECORDED, paired: int = PAIRED) -> Iterator[Measured]:
    """Yields what recording a run costs a process early and late, and what it costs to begin in a directory with a
    segment of the log from each of many processes.

    The late runs of one process and the early ones of another alternate, so that load from elsewhere meets both.
    """
    shape = f"{runs:,} recorded runs"
    with Recorder(root / "loop") as old, Recorder(root / "new") as new:
        old.record(runs - paired)
        empty = new.record(1)
        pairs = [(new.record(1), old.record(1)) for _ in range(paired)]
    early, late = (statistics.median(costs) for costs in zip(*pairs, strict=True))
    yield Measured(shape, f"record, runs 2 to {paired + 1}", early, 20.0, "ms")
    yield Measured(shape, f"record, the last {paired} runs", late, 1.5 * early, "ms")
    yield Measured(shape, "judge", cpu_seconds(["judge", str(root / "loop")]), 8.0)
    write_segments(root / "many", runs)
    with Recorder(root / "many") as begun:
        yield Measured(
            f"{runs:,} segments", "record, what the first run costs more", (begun.record(1) - empty) / 1e3, 3.0
        )


def write_segments(root: Path, count: int) -> None:
    """Writes a log to which ``count`` processes have each added the sweep of one run."""
    entry = Log.read(root).append(SWEEP, _planned_run(0))
    for number in range(1, count):
        entry = replace(entry, content=_planned_run(number), parents=(entry.hash,))
        (root / LOG / f"host-0123abcd-{number}-{number}-{number:08x}.jsonl").write_bytes(entry.line())


def _planned_run(seed: int) -> dict[str, Any]:
    run = {"arm": "only", "config": {"lr": 0.1}, "seeds": [seed + RECORDED]}
    return {"study": "loop", "version": 1, "source": None, "declaration": None, "runs": [run]}


def bench_scale(shapes: Sequence[Shape] = SHAPES) -> int:
    """Measures every command in every shape and prints a table; returns 1 if a limit is exceeded."""
    costs: list[Measured] = []
    for shape in shapes:
        with tempfile.TemporaryDirectory() as directory:
            print(f"{shape.name}: writing {shape.runs:,} runs", file=sys.stderr, flush=True)
            make_runs(Path(directory) / "runs", shape)
            for row in measure(Path(directory) / "runs", shape):
                print(f"{row.shape}: {row.command} {row.cost:.2f} {row.unit}", file=sys.stderr, flush=True)
                costs.append(row)
    with tempfile.TemporaryDirectory() as directory:
        print(f"recording {RECORDED:,} runs", file=sys.stderr, flush=True)
        costs += measure_recording(Path(directory))
    print(render(costs))
    return 0 if all(row.kept for row in costs) else 1


def render(costs: Sequence[Measured]) -> str:
    """Returns the costs as a Markdown table, and a line that names the processor."""
    lines = ["| runs | command | cost | limit | |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.shape} | {row.command} | {row.cost:.3g} {row.unit} | {row.limit:g} {row.unit} "
        f"| {'kept' if row.kept else 'NOT KEPT'} |"
        for row in costs
    ]
    return "\n".join([*lines, "", f"{hardware()['processor']}; CPU seconds of whole commands, start-up counted."])
