"""The interface of an engine: it takes orders and yields the outcomes of each. Results are passed on disk only.

An engine with its own options defines a frozen dataclass for them, whose docstrings are the help texts:

    class Engine:
        options_type = Options

        def __init__(self, workers: int, options: Options) -> None: ...

The command line offers them with ``--engine NAME``; nothing else needs to know about them.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kymograph._errors import KymographError, did_you_mean
from kymograph._registry import Registry
from kymograph._runs.provenance import provenance
from kymograph._runs.record import is_finished, write_failure
from kymograph._sweep.compute import RunOutcome, accelerators
from kymograph._sweep.heartbeat import read_beats
from kymograph._sweep.orders import Order
from kymograph._sweep.progress import Follower

ENGINES = Registry("kymograph.engines", "kymograph._sweep.engines", "Engine")
AUTO = "auto"
EVERY = 1.0
"""Seconds between two readings of the heartbeats."""


class Engine(Protocol):
    """Computes stacks of runs; created with the number of workers it may use, and its options if it has any."""

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes as it ends, in any sequence; closing the iterator stops all work."""
        ...


def check_engine(name: str, workers: int | None) -> None:
    """Raises if there is no such engine, or if the number of workers is invalid."""
    names = [AUTO, *ENGINES.names()]
    if name not in names:
        raise KymographError(f"there is no engine {name!r}{did_you_mean(name, names)}")
    if workers is not None and workers < 1:
        raise KymographError(f"workers must be at least 1, not {workers}")


def options_type(name: str) -> type | None:
    """Returns the dataclass of the engine ``name``'s own options; None if it has none."""
    return None if name == AUTO else getattr(ENGINES.load(name), "options_type", None)


def make_options(name: str, given: Mapping[str, Any]) -> Any:
    """Returns the options of the engine called ``name`` with those ``given`` set; None if it has none."""
    kind = options_type(name)
    names = [field.name for field in dataclasses.fields(kind)] if kind is not None else []
    for option in given:
        if option not in names:
            raise KymographError(f"the engine {name!r} has no option {option!r}{did_you_mean(option, names)}")
    return None if kind is None else kind(**given)


def computes_elsewhere(options: Any) -> bool:
    """Returns whether an engine with these options computes on other machines."""
    return bool(getattr(options, "elsewhere", False))


def choose_engine(
    name: str,
    stacks: int,
    workers: int | None,
    device: str,
    options: Mapping[str, Any] | None = None,
    processes: int = 1,
) -> Engine:
    """Returns the engine called ``name`` with a worker per core, or one per accelerator if there are any.

    ``auto`` computes in this process if there is work for one worker only, and in several otherwise. An engine that
    computes elsewhere gets a worker per stack, regardless of this machine. A worker that starts several ``processes``
    for a run takes as many cores or accelerators.
    """
    check_engine(name, workers)
    engine_options = make_options(name, options or {})
    here = not computes_elsewhere(engine_options)
    usable = workers or ((len(accelerators(device)) or os.cpu_count() or 1) // processes if here else stacks)
    count = max(min(usable, stacks), 1)
    if name == AUTO:
        name = "processes" if count > 1 else "serial"
    make = ENGINES.load(name)
    engine: Engine = make(count) if engine_options is None else make(count, engine_options)
    return engine


def record_death(order: Order, reason: str) -> list[RunOutcome]:
    """Records as failed the runs of ``order`` that its worker had not stored when it died; returns their outcomes."""
    root = Path(order.directory)
    unstored = [spec for spec in order.stack.missing_specs if not is_finished(root, spec)]
    origin = {**provenance(order.device, 1), "log": list(order.log)}
    for spec in unstored:
        write_failure(root, spec, reason, origin)
    return [RunOutcome(spec.id, "failed", reason) for spec in unstored]


def exit_reason(code: int) -> str:
    """Returns the reason of failure for a worker's exit code; a negative one is a signal."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"the worker process died ({how}); run again to retry"


class BeatProgress:
    """Reports to a follower how many steps the workers have done, according to their heartbeats."""

    def __init__(self, orders: Sequence[Order], follower: Follower) -> None:
        self._follower = follower
        self._order_of = {run: number for number, order in enumerate(orders) for run in order.stack.missing_runs}
        self._steps = [order.stack.steps for order in orders]
        self._seen = [0] * len(orders)
        self._directories = {order.stack.study_directory(order.directory) for order in orders}

    def update(self) -> None:
        """Reads the heartbeats."""
        for directory in self._directories:
            for beat in read_beats(directory, time.time()):
                number = next((self._order_of[run] for run in beat.runs if run in self._order_of), None)
                if number is not None:
                    self._tick(number, min(beat.done, self._steps[number]))
                    if beat.words:
                        self._follower.say(beat.words)

    def ended(self, number: int) -> None:
        """Counts the steps that no heartbeat reported: a short stack ends between two readings."""
        self._tick(number, self._steps[number])

    def _tick(self, number: int, done: int) -> None:
        if done > self._seen[number]:  # a stack that is computed again, after its worker died, starts at 0
            self._follower.tick(done - self._seen[number])
            self._seen[number] = done
