"""Directories of runs in every condition, made by hand and without training, of a study whose code does not exist."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kymograph._io.processes import Process, start_time
from kymograph._runs.declaration import Declaration, write_declaration
from kymograph._runs.directory import Directory
from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec, slug
from kymograph._sweep.heartbeat import RUNNING
from tests.records import write_record


def specs(count: int, arm: str = "a", study: str = "warmup", **config: Any) -> list[RunSpec]:
    """Returns planned runs of one arm at seeds 0, 1, ..."""
    return [RunSpec(study, arm, seed, {"lr": 0.1, **config}, 1) for seed in range(count)]


def plan(root: Path, runs: Sequence[RunSpec]) -> None:
    """Logs that ``runs`` were asked for, as sweeps of them would."""
    sweeps: dict[tuple[str, int], list[RunSpec]] = {}
    for run in runs:
        sweeps.setdefault((run.study, run.version), []).append(run)
    for (study, _), members in sweeps.items():
        (root / slug(study)).mkdir(parents=True, exist_ok=True)
        Directory(root).plan(members)


def finish(root: Path, spec: RunSpec, summary: dict[str, Any] | None = None, seconds: float = 2.0) -> None:
    """Stores a finished run whose loss falls from 1 to 0."""
    loss = np.linspace(1, 0, 200)
    series = {"loss": RunSeries(np.arange(200), loss), "per_site": RunSeries(np.arange(1), loss[:1, None], ("x",))}
    write_record(root, spec, RunResult(series, summary or {"spike_ratio": spec.seed + 1.0}), {}, seconds)


def declare(root: Path, version: int = 1, source: str | None = None, **facts: Any) -> Declaration:
    """Stores what the study `warmup` declares, as a sweep of it would."""
    declaration = Declaration("warmup", version=version, source=source, **facts)
    (root / declaration.name).mkdir(parents=True, exist_ok=True)
    write_declaration(root / declaration.name, declaration)
    return declaration


def fail(root: Path, spec: RunSpec, reason: str = "RuntimeError: cursed") -> None:
    """Stores a failed run."""
    write_failure(root, spec, reason, {})


def beat(root: Path, runs: Sequence[RunSpec], pid: int | None = None, **facts: Any) -> Path:
    """Writes the heartbeat of a process, by default of this one, that is at ``runs``."""
    pid = os.getpid() if pid is None else pid
    process = Process.this()
    content = {
        "schema": 1, "pid": pid, "born": start_time(pid), "host": process.host, "table": process.table,
        "runs": [spec.id for spec in runs],
        "done": 25, "steps": 100, "words": "loss 0.3", "started": time.time() - 5, "updated": time.time(), **facts,
    }  # fmt: skip
    path = root / slug(runs[0].study) / RUNNING / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def dead_process() -> int:
    """Returns the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
