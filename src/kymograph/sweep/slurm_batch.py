"""A job array on disk: its script, and the orders and answers of each task.

``STUDY/.slurm/NAME/`` holds ``batch.sh``, and for each task ``INDEX.orders``, ``INDEX.runs``, ``INDEX.answers`` and
``INDEX.log``. NAME is also the array's name in the queue, so that a sweep finds the jobs of an earlier one, even if
that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.foreign.documents import parse_json
from kymograph.foreign.files import read_bytes, read_text
from kymograph.foreign.writes import check_inside
from kymograph.runs.files import make_directory, write_atomically
from kymograph.sweep.compute import RunOutcome
from kymograph.sweep.follow_beats import missing_runs
from kymograph.sweep.orders import Order
from kymograph.sweep.worker import SILENT

SLURM = ".slurm"
_JOB, _FOLLOWED = "job", "followed"
_UNSUBMITTED, _UNFOLLOWED = 600.0, 60.0
"""Seconds after which an array that was not submitted, or is not followed, counts as abandoned."""
_MAX_TEXT, _MAX_JOB = 64 * 2**20, 1024


@dataclass(frozen=True)
class TaskAnswer:
    """A task's answer to one order: how its runs ended, or why it could not be carried out."""

    outcomes: tuple[RunOutcome, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Batch:
    """A job array that was submitted, or is about to be."""

    directory: Path

    @property
    def name(self) -> str:
        """What the array is called in the queue."""
        return self.directory.name

    @property
    def job(self) -> str | None:
        """The id of the job; None if the sweep that submitted it was killed before storing it.

        Anything but a number is ignored: it would reach Slurm's commands, where it might act as an option.
        """
        try:
            text = read_text(self.directory / _JOB, _MAX_JOB, follow=False).strip()
        except KymographError:
            return None
        return text if re.fullmatch(r"[0-9]{1,20}", text) else None

    def submitted(self, job: str) -> None:
        """Stores the id of the job."""
        write_atomically(self.directory / _JOB, job.encode())

    def runs(self) -> dict[str, int]:
        """Returns the ids of the runs that the array computes, each with the index of its task."""
        found: dict[str, int] = {}
        for path in self.directory.glob("*.runs"):
            try:
                found |= dict.fromkeys(read_text(path, _MAX_TEXT, follow=False).split(), int(path.stem))
            except (KymographError, ValueError):
                continue  # removed by another sweep that saw the array end
        return found

    def answers(self, index: int) -> list[TaskAnswer]:
        """Returns a task's answers, one per order that it carried out."""
        try:
            lines = read_bytes(self.directory / f"{index}.answers", _MAX_TEXT, follow=False).splitlines()
        except KymographError:
            return []
        found: list[TaskAnswer] = []
        for line in lines:
            try:
                found.append(_answer(parse_json(line)))
            except ValueError:
                break  # the task was killed while writing this, or something else wrote it
        return found

    def last_log_line(self, index: int) -> str:
        """Returns the last line that a task wrote to its log."""
        try:
            text = read_text(self.directory / f"{index}.log", _MAX_TEXT, follow=False, errors="replace")
            lines = text.strip().splitlines()
        except KymographError:
            return ""
        return lines[-1][:200] if lines else ""

    def remove(self) -> None:
        """Removes the files; nothing else needs them once the array has ended."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.directory.parent.rmdir()  # fails, as it should, while another array's files are there

    def follow(self) -> None:
        """Marks the array as followed, so that other sweeps do not remove its files."""
        with contextlib.suppress(OSError):
            (self.directory / _FOLLOWED).touch()

    def is_followed(self) -> bool:
        """Returns whether another sweep waits for the answers, or is about to submit the array."""
        try:
            if self.job is None:
                return time.time() - self.directory.stat().st_mtime < _UNSUBMITTED
            return time.time() - (self.directory / _FOLLOWED).stat().st_mtime < _UNFOLLOWED
        except OSError:
            return False


def write_batch(study: Path, tasks: Sequence[Sequence[Order]], limit: int, lines: Sequence[str]) -> Batch:
    """Writes the files of a new job array below a study's directory.

    Args:
        study: the directory of the study's runs.
        tasks: the orders of each task.
        limit: how many tasks may run at a time.
        lines: further sbatch options, e.g. ``--partition=gpu``.
    """
    batch = Batch(study / SLURM / f"kymograph-{os.urandom(6).hex()}")
    make_directory(batch.directory, study.parent)
    for index, orders in enumerate(tasks):
        text = "".join(json.dumps(order.to_json()) + "\n" for order in orders)
        write_atomically(batch.directory / f"{index}.orders", text.encode())
        runs = [run for order in orders for run in missing_runs(order.stack)]
        write_atomically(batch.directory / f"{index}.runs", "\n".join(runs).encode())
        # Created here: on a network disk, a file that is looked up too early can stay invisible for a minute.
        write_atomically(batch.directory / f"{index}.answers", b"")
    at_a_time = f"%{limit}" if limit < len(tasks) else ""
    options = [f"--job-name={batch.name}", f"--array=0-{len(tasks) - 1}{at_a_time}", "--ntasks=1",
               "--output=/dev/null", *lines]  # fmt: skip
    script = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        f"task={shlex.quote(str(batch.directory))}/$SLURM_ARRAY_TASK_ID",
        'exec 2> "$task.log"',  # not by --output, in which Slurm expands every %
        "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1",
        f'exec {shlex.quote(sys.executable)} -P -m kymograph.sweep.worker {SILENT} < "$task.orders" > "$task.answers"',
    ]
    write_atomically(batch.directory / "batch.sh", ("\n".join(script) + "\n").encode())
    return batch


def batches_in(study: Path) -> Iterator[Batch]:
    """Yields the job arrays whose files are below a study's directory; raises if a link leads them elsewhere."""
    check_inside(study / SLURM, study.parent)
    try:
        names = sorted(os.listdir(study / SLURM))
    except OSError:
        return
    yield from (Batch(study / SLURM / name) for name in names if name.startswith("kymograph-"))


def error_in(answers: Sequence[TaskAnswer]) -> str | None:
    """Returns the first error that a task reported; None if there is none."""
    return next((answer.error for answer in answers if answer.error is not None), None)


def _answer(value: Any) -> TaskAnswer:
    """Returns an answer from its JSON value; raises ValueError if it is invalid."""
    if not isinstance(value, dict):
        raise ValueError("an answer is an object")
    if "error" in value:
        return TaskAnswer(error=str(value["error"]))
    outcomes = value.get("outcomes", [])
    if not isinstance(outcomes, list) or not all(map(_is_outcome, outcomes)):
        raise ValueError("an answer lists how runs ended")
    return TaskAnswer(tuple(RunOutcome(one["run"], one["status"], one.get("reason")) for one in outcomes))


def _is_outcome(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("run"), str)
        and value.get("status") in ("finished", "failed")
        and isinstance(value.get("reason"), str | None)
    )


def check_line(option: str) -> str:
    """Returns an sbatch option as written in a script, e.g. ``--mem=4G`` for ``mem=4G``; raises if it is invalid."""
    line = option.removeprefix("#SBATCH").strip()
    line = line if line.startswith("-") else f"--{line}"
    if not line.strip("-") or "\n" in line:
        raise KymographError(f"--sbatch takes options such as mem=4G, not {option!r}")
    return line
