"""Computes the missing stacks on the nodes of a Slurm cluster, as one job array.

The array's orders and answers are files in the output directory, which every node must see. Slurm does not restart a
job whose process was killed; this engine does, while it follows the queue, up to ``--retries`` times. With ``--detach``
it returns at once, and the next `kymograph run` submits what is missing and not in the queue.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kymograph.errors import KymographError
from kymograph.runs.record import is_finished
from kymograph.runs.spec import slug
from kymograph.sweep import slurm_queue
from kymograph.sweep.compute import SUBMITTED, Follower, RunOutcome
from kymograph.sweep.engines.base import record_death
from kymograph.sweep.follow_beats import EVERY, BeatProgress, missing_runs
from kymograph.sweep.orders import Order
from kymograph.sweep.slurm_batch import Batch, batches_in, check_line, error_in, write_batch
from kymograph.sweep.slurm_queue import JobEnd, QueueUnreachable

PART = {"about": "a job array of a Slurm cluster whose nodes share the output directory", "order": 4}
LONGEST_PAUSE = 10.0
"""The most seconds between two queries of the queue; frequent queries slow Slurm down for everybody."""
PATIENCE = 300.0
"""Seconds without an answer from Slurm after which the sweep stops following its jobs."""
GRACE = 60.0
"""Seconds after which the files of a finished job must be visible on this machine."""


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

    def lines(self, device: str) -> list[str]:
        """Returns the sbatch options, the user's last, because the last one counts."""
        found = [f"--partition={self.partition}"] if self.partition else []
        found += [f"--time={self.time}"] if self.time else []
        found += ["--gres=gpu:1"] if device.startswith("cuda") else ["--cpus-per-task=1"]
        return [*found, *map(check_line, self.sbatch)]


@dataclass
class _Task:
    """A task of a job array, with the numbers of this sweep's orders that it computes."""

    batch: Batch
    index: int
    orders: list[int]
    submitted_here: bool
    gone: float | None = None
    """When it was first seen to have left the queue."""


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
                yield [RunOutcome(run, SUBMITTED) for run in missing_runs(order.stack)]
            return
        try:
            yield from sweep.follow(BeatProgress(orders, follower))
        finally:
            sweep.cancel()


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
        studies = {_study(order) for order in self.orders}
        # `is_followed` is checked before the queue, since an array may be about to be submitted.
        batches = {batch.name: (batch, batch.is_followed()) for study in studies for batch in batches_in(study)}
        active = slurm_queue.queued(batches)
        problem = None
        for batch, followed in batches.values():
            runs = batch.runs()
            tasks = {
                index: _Task(batch, index, [], submitted_here=False) for name, index in active if name == batch.name
            }
            for number, order in enumerate(self.orders):
                found = {runs.get(run) for run in missing_runs(order.stack)}
                index = found.pop()
                if not found and index is not None and index in tasks and number not in self.covered():
                    tasks[index].orders.append(number)
            self.tasks += (task for task in tasks.values() if task.orders)
            if not tasks and not followed:
                problem = problem or next(
                    filter(None, (error_in(batch.answers(one)) for one in {*runs.values()})), None
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
        most = slurm_queue.largest_array()
        for start in range(0, len(chunks), most):
            part = chunks[start : start + most]
            orders = [[self.orders[number] for number in chunk] for chunk in part]
            batch = write_batch(_study(orders[0][0]), orders, self.workers, self.options.lines(orders[0][0].device))
            try:
                batch.submitted(slurm_queue.submit(batch.directory / "batch.sh"))
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
                active = slurm_queue.queued({task.batch.name for task in self.tasks})
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
                for number, outcomes in ended:
                    if outcomes is None:
                        again.append(number)
                    else:
                        progress.ended(number)
                        yield outcomes

    def _ended(self, task: _Task) -> list[tuple[int, list[RunOutcome] | None]] | None:
        """Returns the number and outcomes of each order of a task that left the queue; no outcomes: resubmit it.

        Returns None instead of a list if the job finished and its files are not visible here yet.
        """
        answers = task.batch.answers(task.index)
        if problem := error_in(answers):
            raise KymographError(problem)
        reported = {one.run: one for answer in answers for one in answer.outcomes}
        left = [number for number in task.orders if not self._all_outcomes_known(number, reported)]
        end = slurm_queue.job_end(task.batch.job or "", task.index) if left else None
        if end is not None and end.state == "COMPLETED":
            task.gone = task.gone or time.monotonic()
            if time.monotonic() - task.gone < GRACE:
                return None
        found: list[tuple[int, list[RunOutcome] | None]] = []
        for number in task.orders:
            order = self.orders[number]
            if number not in left:
                runs = missing_runs(order.stack)
                found.append((number, [reported.get(run, RunOutcome(run, "finished")) for run in runs]))
            elif end is not None and (end.state == "CANCELLED" or self.attempts[number] > self.options.retries):
                found.append((number, record_death(order, self._reason(task, number, end))))
            else:
                found.append((number, None))
        return found

    def _reason(self, task: _Task, number: int, end: JobEnd) -> str:
        """Returns the reason of failure for an order whose job ended without an answer."""
        words = task.batch.last_log_line(task.index)
        last = f" (last line of its log: {words!r})" if words else ""
        times = f" {self.attempts[number]} times" if self.attempts[number] > 1 else ""
        return f"its Slurm job ended{times} as {end}{last}; run again to retry"

    def _all_outcomes_known(self, number: int, reported: dict[str, RunOutcome]) -> bool:
        """Returns whether the outcome of every run of an order is known: it failed, or its record is here.

        Only its record proves that a run finished: an answer may become visible first, or be forged.
        """
        order = self.orders[number]
        failed = {run for run, outcome in reported.items() if outcome.status == "failed"}
        pairs = zip(order.stack.specs, order.stack.missing, strict=True)
        return all(spec.id in failed or is_finished(Path(order.directory), spec) for spec, missing in pairs if missing)

    def cancel(self) -> None:
        """Cancels the jobs that this sweep submitted and that have not ended."""
        batches = {task.batch for task in self.tasks if task.submitted_here}
        with contextlib.suppress(KymographError):
            slurm_queue.cancel([batch.job for batch in batches if batch.job])
        for batch in batches:
            batch.remove()


def _study(order: Order) -> Path:
    return Path(order.directory) / slug(order.stack.specs[0].study)


def _wait(seconds: float, progress: BeatProgress) -> None:
    """Waits, passing on progress from the heartbeats meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, EVERY))
        progress.update()
