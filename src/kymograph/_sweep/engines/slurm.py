"""Computes the missing stacks on the nodes of a Slurm cluster, as one job array.

Orders and answers are files in the output directory, which every node must see: ``STUDY/.slurm/NAME/`` holds
``batch.sh``, and for each task ``INDEX.orders``, ``INDEX.runs``, ``INDEX.answers`` and ``INDEX.log``. NAME is also the
array's name in the queue, so that a sweep finds the jobs of an earlier one, even if that was killed.

Slurm does not restart a job whose process was killed; this engine does, while it follows the queue, up to ``--retries``
times. With ``--detach`` it returns at once, and the next `kymograph run` submits what is missing and not in the queue.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.documents import parse_json
from kymograph._io.files import check_inside, read_bytes, read_text
from kymograph._io.writing import make_directory, write_atomically
from kymograph._runs.record import is_finished
from kymograph._sweep.compute import SUBMITTED, RunOutcome
from kymograph._sweep.engines.base import EVERY, BeatProgress, record_death
from kymograph._sweep.orders import Order
from kymograph._sweep.progress import Follower
from kymograph._sweep.worker import SILENT, WORKER

PARTS = {
    "slurm": {
        "attribute": "Engine",
        "about": "a job array of a Slurm cluster whose nodes share the output directory",
        "order": 4,
    },
}

SLURM = ".slurm"
LONGEST_PAUSE = 10.0
"""The most seconds between two queries of the queue; frequent queries slow Slurm down for everybody."""
PATIENCE = 300.0
"""Seconds without an answer from Slurm after which the sweep stops following its jobs."""
GRACE = 60.0
"""Seconds after which the files of a finished job must be visible on this machine."""
_JOB, _FOLLOWED = "job", "followed"
_UNSUBMITTED, _UNFOLLOWED = 600.0, 60.0
"""Seconds after which an array that was not submitted, or is not followed, counts as abandoned."""
_COMMAND_TAKES = 60.0
"""Seconds after which a Slurm command counts as failed."""
_SMALLEST_ARRAY = 1001
"""Slurm's default for MaxArraySize, for a cluster that does not report it."""
_MAX_TEXT, _MAX_JOB = 64 * 2**20, 1024


@dataclass(frozen=True)
class Options:
    """How the stacks are submitted; --workers is how many jobs of the array run at a time."""

    partition: str | None = field(default=None, metadata={"metavar": "NAME", "default": "the cluster's"})
    """The partition, or several separated by commas."""
    time: str | None = field(default=None, metadata={"metavar": "HH:MM:SS", "default": "the partition's"})
    """The time limit of a job."""
    sbatch: tuple[str, ...] = field(default=(), metadata={"metavar": "OPTION ...", "default": "none"})
    """Further sbatch options, without their dashes, e.g. --sbatch mem=4G account=physics."""
    per_job: int = field(default=1, metadata={"metavar": "N"})
    """Stacks that one job computes in turn; short stacks then share its start-up of a few seconds."""
    retries: int = field(default=3, metadata={"metavar": "N"})
    """How often a stack whose job was killed is submitted again."""
    detach: bool = False
    """Return when the jobs are submitted; the same command later collects results and submits what is missing."""
    elsewhere = True

    def __post_init__(self) -> None:
        if self.per_job < 1 or self.retries < 0:
            raise KymographError("--per-job must be at least 1 and --retries at least 0")
        for text in (self.partition, self.time):
            if text is not None and (not text or any(character.isspace() for character in text)):
                raise KymographError(f"{text!r} is not a valid partition or time")

    def lines(self, device: str, processes: int = 1) -> list[str]:
        """Returns the sbatch options, the user's last, because the last one counts."""
        lines = [f"--partition={self.partition}"] if self.partition else []
        lines += [f"--time={self.time}"] if self.time else []
        lines += [f"--gres=gpu:{processes}"] if device.startswith("cuda") else [f"--cpus-per-task={processes}"]
        return [*lines, *map(check_line, self.sbatch)]


def check_line(option: str) -> str:
    """Returns an sbatch option as written in a script, e.g. ``--mem=4G`` for ``mem=4G``; raises if it is invalid."""
    line = option.removeprefix("#SBATCH").strip()
    line = line if line.startswith("-") else f"--{line}"
    if not line.strip("-") or "\n" in line:
        raise KymographError(f"--sbatch takes options such as mem=4G, not {option!r}")
    return line


class Engine:
    """Computes on a Slurm cluster, ``workers`` jobs at a time."""

    options_type = Options

    def __init__(self, workers: int, options: Options) -> None:
        self.workers, self.options = workers, options

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes as its job ends; closing the iterator cancels the jobs it submitted."""
        sweep = _Sweep(orders, self.workers, self.options)
        sweep.adopt()
        sweep.submit([number for number in range(len(orders)) if number not in sweep.covered()])
        if self.options.detach:
            for order in orders:
                yield [RunOutcome(run, SUBMITTED) for run in order.stack.missing_runs]
            return
        try:
            yield from sweep.follow(BeatProgress(orders, follower))
        finally:
            sweep.cancel()


@dataclass
class _Task:
    """A task of a job array, with the numbers of this sweep's orders that it computes."""

    batch: Batch
    index: int
    orders: list[int]
    submitted_here: bool
    gone: float | None = None
    """When it was first seen to have left the queue."""


class _Sweep:
    """The orders of one sweep, and the tasks in the queue that compute them."""

    def __init__(self, orders: Sequence[Order], workers: int, options: Options) -> None:
        self.orders, self.workers, self.options = orders, workers, options
        self.tasks: list[_Task] = []
        self.attempts = [0] * len(orders)

    def covered(self) -> set[int]:
        """Returns the numbers of the orders that a task in the queue computes."""
        return {number for task in self.tasks for number in task.orders}

    def adopt(self) -> None:
        """Takes over the tasks of earlier sweeps that are still in the queue, and removes the files of ended ones."""
        studies = {order.stack.study_directory(order.directory) for order in self.orders}
        # `is_followed` is checked before the queue, since an array may be about to be submitted.
        batches = {batch.name: (batch, batch.is_followed()) for study in studies for batch in batches_in(study)}
        active = queued(batches)
        problem = None
        for batch, followed in batches.values():
            index_of = batch.runs()
            tasks = {
                index: _Task(batch, index, [], submitted_here=False) for name, index in active if name == batch.name
            }
            for number, order in enumerate(self.orders):
                indices = {index_of.get(run) for run in order.stack.missing_runs}
                index = indices.pop()
                if not indices and index is not None and index in tasks and number not in self.covered():
                    tasks[index].orders.append(number)
            self.tasks += (task for task in tasks.values() if task.orders)
            if not tasks and not followed:
                problem = problem or next(
                    filter(None, (batch.answers(index)[1] for index in {*index_of.values()})), None
                )
                batch.remove()
        if problem and not self.tasks:
            raise KymographError(f"the jobs submitted earlier ended: {problem}; run again to resubmit them")

    def submit(self, numbers: Sequence[int]) -> None:
        """Submits orders, as one array if Slurm allows one that large."""
        if not numbers:
            return
        size = self.options.per_job
        chunks = [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]
        most = largest_array()
        for start in range(0, len(chunks), most):
            part = chunks[start : start + most]
            orders = [[self.orders[number] for number in chunk] for chunk in part]
            first = orders[0][0]
            study = first.stack.study_directory(first.directory)
            batch = write_batch(study, orders, self.workers, self.options.lines(first.device, first.processes))
            try:
                job = _slurm("sbatch", "--parsable", str(batch.directory / "batch.sh"))
                batch.submitted(job.strip().split(";")[0])  # NUMBER;CLUSTER where there are several clusters
            except KymographError:
                batch.remove()
                raise
            self.tasks += (_Task(batch, index, chunk, submitted_here=True) for index, chunk in enumerate(part))
        for number in numbers:
            self.attempts[number] += 1

    def follow(self, progress: BeatProgress) -> Iterator[list[RunOutcome]]:
        """Yields the outcomes of each order when its task has left the queue."""
        pause, answered = EVERY / 2, time.monotonic()
        again: list[int] = []
        while self.tasks or again:
            _wait(pause, progress)
            pause = min(1.5 * pause, LONGEST_PAUSE)
            try:
                self.submit(again)
                again = []
                active = queued({task.batch.name for task in self.tasks})
                answered = time.monotonic()
            except QueueUnreachable as error:
                if time.monotonic() - answered > PATIENCE:
                    self.tasks = []  # so that nothing is cancelled
                    raise KymographError(
                        f"{error}; the jobs continue, run the same command again to follow them"
                    ) from None
                continue
            for batch in {task.batch for task in self.tasks if task.submitted_here}:
                batch.follow()
            for task in [task for task in self.tasks if (task.batch.name, task.index) not in active]:
                if (ended := self._ended(task)) is None:
                    continue
                self.tasks.remove(task)
                last = not any(other.batch == task.batch for other in self.tasks)
                if last and (task.submitted_here or not task.batch.is_followed()):
                    task.batch.remove()
                for number, outcomes in ended.items():
                    if outcomes is None:
                        again.append(number)
                    else:
                        progress.ended(number)
                        yield outcomes

    def _ended(self, task: _Task) -> dict[int, list[RunOutcome] | None] | None:
        """Returns the outcomes of each order of a task that left the queue, by number; None: resubmit the order.

        Returns None instead of a dictionary if the job finished and its files are not visible here yet.
        """
        reported, problem = task.batch.answers(task.index)
        if problem:
            raise KymographError(problem)
        left = [number for number in task.orders if not self._all_outcomes_known(number, reported)]
        end = job_end(task.batch.job or "", task.index) if left else JobEnd("COMPLETED")
        if left and end.state == "COMPLETED":
            task.gone = task.gone or time.monotonic()
            if time.monotonic() - task.gone < GRACE:
                return None
        ended: dict[int, list[RunOutcome] | None] = {}
        for number in task.orders:
            order = self.orders[number]
            if number not in left:
                ended[number] = [reported.get(run, RunOutcome(run, "finished")) for run in order.stack.missing_runs]
            elif end.state == "CANCELLED" or self.attempts[number] > self.options.retries:
                ended[number] = record_death(order, self._reason(task, number, end))
            else:
                ended[number] = None
        return ended

    def _all_outcomes_known(self, number: int, reported: dict[str, RunOutcome]) -> bool:
        """Returns whether the outcome of every run of an order is known: it failed, or its record is here.

        Only its record proves that a run finished: an answer may become visible first, or be forged.
        """
        order = self.orders[number]
        failed = {run for run, outcome in reported.items() if outcome.status == "failed"}
        return all(spec.id in failed or is_finished(Path(order.directory), spec) for spec in order.stack.missing_specs)

    def _reason(self, task: _Task, number: int, end: JobEnd) -> str:
        """Returns the reason of failure for an order whose job ended without an answer."""
        words = task.batch.last_log_line(task.index)
        last = f" (last line of its log: {words!r})" if words else ""
        times = f" {self.attempts[number]} times" if self.attempts[number] > 1 else ""
        return f"its Slurm job ended{times} as {end}{last}; run again to retry"

    def cancel(self) -> None:
        """Cancels the jobs that this sweep submitted and that have not ended."""
        batches = {task.batch for task in self.tasks if task.submitted_here}
        with contextlib.suppress(KymographError):
            if jobs := [batch.job for batch in batches if batch.job]:
                _slurm("scancel", *jobs)
        for batch in batches:
            batch.remove()


def _wait(seconds: float, progress: BeatProgress) -> None:
    """Waits, passing on progress from the heartbeats meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, EVERY))
        progress.update()


@dataclass(frozen=True)
class Batch:
    """The files of a job array that was submitted, or is about to be."""

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
        text = self._text(_JOB, _MAX_JOB).strip()
        return text if re.fullmatch(r"[0-9]{1,20}", text) else None

    def submitted(self, job: str) -> None:
        """Stores the id of the job."""
        write_atomically(self.directory / _JOB, job.encode())

    def runs(self) -> dict[str, int]:
        """Returns the ids of the runs that the array computes, each with the index of its task."""
        return {
            run: int(path.stem)
            for path in self.directory.glob("*.runs")
            if path.stem.isdecimal()
            for run in self._text(path.name).split()
        }

    def answers(self, index: int) -> tuple[dict[str, RunOutcome], str | None]:
        """Returns how the runs of a task ended as far as it has answered, by id, and the first error it reported."""
        outcomes: dict[str, RunOutcome] = {}
        problem = None
        with contextlib.suppress(KymographError, ValueError, TypeError):  # half written, or forged
            for line in read_bytes(self.directory / f"{index}.answers", _MAX_TEXT, follow=False).splitlines():
                answer = parse_json(line)
                if not isinstance(answer, dict):
                    break
                if "error" in answer:
                    problem = problem or str(answer["error"])
                else:
                    outcomes |= {outcome.run: outcome for outcome in map(_outcome, answer.get("outcomes", []))}
        return outcomes, problem

    def last_log_line(self, index: int) -> str:
        """Returns the last line that a task wrote to its log."""
        return (self._text(f"{index}.log").strip().splitlines() or [""])[-1][:200]

    def _text(self, name: str, limit: int = _MAX_TEXT) -> str:
        """Returns the content of a file; empty if it cannot be read: another sweep may have removed it."""
        try:
            return read_text(self.directory / name, limit, follow=False, errors="replace")
        except KymographError:
            return ""

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

    def remove(self) -> None:
        """Removes the files; nothing else needs them once the array has ended."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.directory.parent.rmdir()  # fails, as it should, while another array's files are there


def _outcome(value: Any) -> RunOutcome:
    """Returns the outcome of a run from its JSON value; raises ValueError if it is invalid."""
    if isinstance(value, dict):
        run, status, reason = (value.get(name) for name in ("run", "status", "reason"))
        if isinstance(run, str) and status in ("finished", "failed") and isinstance(reason, str | None):
            return RunOutcome(run, status, reason)
    raise ValueError("not the outcome of a run")


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
        runs = [run for order in orders for run in order.stack.missing_runs]
        write_atomically(batch.directory / f"{index}.runs", "\n".join(runs).encode())
        # Created here: on a network disk, a file that is looked up too early can stay invisible for a minute.
        write_atomically(batch.directory / f"{index}.answers", b"")
    at_a_time = f"%{limit}" if limit < len(tasks) else ""
    options = [f"--job-name={batch.name}", f"--array=0-{len(tasks) - 1}{at_a_time}", "--ntasks=1",
               "--output=/dev/null", *lines]  # fmt: skip
    commands = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        f"task={shlex.quote(str(batch.directory))}/$SLURM_ARRAY_TASK_ID",
        'exec 2> "$task.log"',  # not by --output, in which Slurm expands every %
        "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1",
        f'exec {shlex.join(WORKER)} {SILENT} < "$task.orders" > "$task.answers"',
    ]
    write_atomically(batch.directory / "batch.sh", ("\n".join(commands) + "\n").encode())
    return batch


def batches_in(study: Path) -> Iterator[Batch]:
    """Yields the job arrays whose files are below a study's directory; raises if a link leads them elsewhere."""
    check_inside(study / SLURM, study.parent)
    try:
        names = sorted(os.listdir(study / SLURM))
    except OSError:
        return
    yield from (Batch(study / SLURM / name) for name in names if name.startswith("kymograph-"))


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


def job_end(job: str, index: int) -> JobEnd:
    """Returns how a task ended, as far as Slurm still knows; it forgets after a few minutes (MinJobAge)."""
    try:
        text = _slurm("scontrol", "-o", "show", "job", f"{job}_{index}")
    except KymographError:
        return JobEnd("ended")
    state, code = re.search(r"\bJobState=(\w+)", text), re.search(r"\bExitCode=(\d+):(\d+)", text)
    return JobEnd(state[1] if state else "ended", *map(int, code.groups() if code else ()))


def queued(names: Collection[str]) -> set[tuple[str, int]]:
    """Returns the waiting or running tasks of the job arrays called ``names``, as (name, index)."""
    if not names:
        return set()
    lines = _slurm("squeue", "-h", "-r", "-u", getpass.getuser(), "-n", ",".join(names), "-o", "%j|%K").splitlines()
    pairs = (line.strip().rpartition("|") for line in lines)
    return {(name, int(index)) for name, _, index in pairs if index.isdecimal()}


def largest_array() -> int:
    """Returns how many tasks a job array may have here."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", _slurm("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(match[1]) if match else _SMALLEST_ARRAY)


def _slurm(*command: str) -> str:
    """Runs a Slurm command and returns its output; raises a KymographError if it fails."""
    program = command[0]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_TAKES, check=False)
    except FileNotFoundError:
        raise KymographError(f"{program} was not found; run this where Slurm's commands are installed") from None
    except subprocess.TimeoutExpired:
        raise QueueUnreachable(f"{program} did not answer within {_COMMAND_TAKES:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise QueueUnreachable(f"{program}: {last.removeprefix(f'{program}: ').removeprefix('error: ')}")
    return done.stdout
