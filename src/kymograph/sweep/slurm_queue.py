"""Slurm's own commands: submit a job array, list its tasks in the queue, and find out how the others ended."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kymograph.errors import KymographError

_PATIENCE = 60.0
"""Seconds after which a Slurm command counts as failed."""
_SMALLEST_ARRAY = 1001
"""Slurm's default for MaxArraySize, for a cluster that does not report it."""


class QueueUnreachable(KymographError):
    """Slurm did not answer; it may do so later."""


@dataclass(frozen=True)
class JobEnd:
    """How a task of a job array ended: its state, e.g. ``FAILED``, its exit code, and the signal that ended it."""

    state: str
    code: int = 0
    signal: int = 0

    def __str__(self) -> str:
        how = f", signal {self.signal}" if self.signal else f", exit code {self.code}" if self.code else ""
        return f"{self.state}{how}"


def submit(script: Path) -> str:
    """Submits a batch script; returns the id of its job."""
    answer = _slurm(["sbatch", "--parsable", str(script)])
    return answer.strip().split(";")[0]  # NUMBER;CLUSTER where there are several clusters


def queued(names: Collection[str]) -> set[tuple[str, int]]:
    """Returns the waiting or running tasks of the job arrays called ``names``, as (name, index)."""
    if not names:
        return set()
    lines = _slurm(["squeue", "-h", "-r", "-u", getpass.getuser(), "-n", ",".join(names), "-o", "%j|%K"]).splitlines()
    pairs = (line.strip().rpartition("|") for line in lines)
    return {(name, int(index)) for name, _, index in pairs if index.isdecimal()}


def job_end(job: str, index: int) -> JobEnd:
    """Returns how a task ended, as far as Slurm still knows; it forgets after a few minutes (MinJobAge)."""
    try:
        text = _slurm(["scontrol", "-o", "show", "job", f"{job}_{index}"])
    except KymographError:
        return JobEnd("ended")
    state, code = re.search(r"\bJobState=(\w+)", text), re.search(r"\bExitCode=(\d+):(\d+)", text)
    numbers = (int(code[1]), int(code[2])) if code else (0, 0)
    return JobEnd(state[1] if state else "ended", *numbers)


def cancel(jobs: Sequence[str]) -> None:
    """Cancels jobs, waiting or running."""
    if jobs:
        _slurm(["scancel", *jobs])


def largest_array() -> int:
    """Returns how many tasks a job array may have here."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _slurm(["scontrol", "show", "config"]), re.MULTILINE)
    return max(1, int(found[1]) if found else _SMALLEST_ARRAY)


def _slurm(command: list[str]) -> str:
    """Runs a Slurm command and returns its output; raises a KymographError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except FileNotFoundError:
        raise KymographError(f"{command[0]} was not found; run this where Slurm's commands are installed") from None
    except subprocess.TimeoutExpired:
        raise QueueUnreachable(f"{command[0]} did not answer within {_PATIENCE:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        reason = last.removeprefix(f"{command[0]}: ").removeprefix("error: ")
        raise QueueUnreachable(f"{command[0]}: {reason}")
    return done.stdout
