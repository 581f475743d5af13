"""A run as seen by the user's own training loop: its seed and device, its logs, and how it resumes after a kill."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from kymograph import streams
from kymograph.errors import KymographError
from kymograph.rounding import number_text
from kymograph.runs.record import RunSeries
from kymograph.runs.resume import FILE, read_state, write_state
from kymograph.streams import stream_seed
from kymograph.sweep.progress import Follower

if TYPE_CHECKING:
    from torch import nn

    from kymograph.probes.probe import Probe


Item = TypeVar("Item")
FIRST_SAVE = 1.0
"""Seconds of training before its state is first saved."""
SAVING_SHARE = 0.02
"""The largest share of the time that saving may take."""
TICK_EVERY = 0.2
"""The least number of seconds between two progress reports."""
BLOCK = 512
"""How many values are buffered before they are converted to numbers: reading a tensor waits for its device."""


class Resumable(Protocol):
    """Anything whose state can be saved and restored: a module, an optimizer, a scheduler, a scaler."""

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state."""
        ...

    def load_state_dict(self, state: Any) -> Any:
        """Restores the state, in place."""
        ...


class RunSummary(dict[str, Any]):
    """The summary numbers of a run, by name; calling it adds more."""

    def __call__(self, **values: Any) -> None:
        """Adds or replaces numbers."""
        self.update(values)


class ActiveRun:
    """One run of a study, as given to a study's training function and by ``with ky.record(...)``.

        with run.seeded("init"):
            model = make_model().to(run.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=run.config["lr"])
        run.watch(model, optimizer, every=10)
        run.resumable(model=model, optimizer=optimizer)
        for step in run.steps(1000):
            ...
            run.log(loss=loss)

    ``run.arm``, ``run.seed``, ``run.config`` (the settings, by name) and ``run.device`` identify the run, and
    ``run.step`` is its current step. ``run.notes`` is a list of sentences stored with the run and shown in reports.
    """

    def __init__(
        self,
        arm: str,
        seed: int,
        config: Mapping[str, Any],
        device: str,
        follower: Follower,
        directory: Path | None,
        identity: Mapping[str, Any],
    ) -> None:
        """Prepares a run; a resume state in ``directory`` is used only if it has this ``identity``."""
        self.arm, self.seed, self.config = arm, seed, dict(config)
        self.device = torch.device(device)
        self.step = 0
        self._follower, self._identity = follower, identity
        self._path = None if directory is None else directory / FILE
        self._logged = LoggedSeries()
        self._resumable: dict[str, Resumable] = {}
        self._probes: list[Probe] = []
        self._state: dict[str, Any] | None = None
        self._first = 0
        self._every: int | None = None
        self._looping = False
        self._logged_without_loop = 0
        self.notes: list[str] = []
        self.summary = RunSummary()
        """The run's summary numbers: ``run.summary["loss"] = loss``, or ``run.summary(loss=loss)``."""
        self._saved_at = time.monotonic()
        self._save_after = FIRST_SAVE
        self._ticks, self._ticked_at = 0, time.monotonic()
        self._speaks = False
        if self._path is not None:
            self._state, why = read_state(self._path, identity)
            if self._state is not None and type(self._state.get("step")) is not int:
                self._state, why = None, "its state on disk has no step number"
            if why:
                self.notes.append(f"the run started over, because {why}")
            if self._state is not None:
                self._first = self._state["step"]

    def seeded(self, *names: str) -> contextlib.AbstractContextManager[None]:
        """Seeds the global generators of torch, numpy and Python for a ``with`` block, from the run's seed and a name.

        Arms that use the same name at the same seed get the same numbers, whatever else they draw.
        """
        return seeded(self.seed, *(names or ("default",)))

    def generator(self, *names: str) -> torch.Generator:
        """Returns a new generator for the stream of this name at the run's seed."""
        return streams.generator(self.seed, *names)

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None:
        """Records numbers measured at this step: one each, or several by site, e.g. ``{"layer 1": 0.3}``.

        ``run.log(loss=loss)`` and ``run.log({"loss": loss})`` are equivalent.
        """
        if values is not None and not isinstance(values, Mapping):
            raise KymographError("run.log takes numbers by name, e.g. run.log(loss=loss), and the step as step=...")
        if step is None:
            if not self._looping:
                step = self._logged_without_loop
                self._logged_without_loop += 1
            else:
                step = self.step
        self._logged.log(step, {**(values or {}), **named})

    def say(self, text: str) -> None:
        """Shows a text wherever the run's progress is followed; default: the numbers it last logged."""
        self._speaks = True
        self._follower.say(text)

    def watch(self, model: nn.Module, optimizer: Any = None, every: int = 1, **options: Any) -> Probe:
        """Measures the network every ``every`` steps of training; the options are those of `kymograph.Probe`."""
        from kymograph.probes.probe import Probe

        probe = Probe(model, optimizer, every=every, **options)
        probe.attach()
        self._probes.append(probe)
        return probe

    def resumable(self, *, every: int | None = None, **objects: Resumable) -> None:
        """Registers objects whose state is saved during training and restored when a killed run resumes.

        Args:
            every: steps between two saves; default: as often as possible within 2 % of the time.
            **objects: any objects with ``state_dict`` and ``load_state_dict``.
        """
        for name, item in objects.items():
            if not callable(getattr(item, "state_dict", None)) or not callable(getattr(item, "load_state_dict", None)):
                raise KymographError(f"{name} cannot be resumed: it has no state_dict and load_state_dict")
        self._resumable |= objects
        self._every = every

    @overload
    def steps(self, over: int) -> Iterator[int]: ...
    @overload
    def steps(self, over: Iterable[Item]) -> Iterator[Item]: ...
    def steps(self, over: Any) -> Iterator[Any]:
        """Yields the steps 0, 1, ... up to a number, or the items of an iterable, and counts them.

        A killed run resumes after its last saved step and skips the items before it. So an iterable must yield the same
        items again, which it does if its random numbers come from the run.
        """
        if self._looping:
            raise KymographError("run.steps cannot be nested; count the outer loop, or the inner one")
        start, self._looping = self.step, True
        if not self._resumable:
            self._first = 0  # nothing can be resumed
        try:
            for index, item in enumerate(range(over) if isinstance(over, int) else over, start=start):
                if index < self._first:
                    self._tick(1)
                    self.step = index + 1
                    continue
                if self._state is not None and self._resumable:
                    self._restore(self._state)
                    self._follower.say(f"resumed at step {index}")
                self._state = None
                self.step = index
                for probe in self._probes:
                    probe.begin(index)
                try:
                    yield item
                except BaseException:  # the loop was left in the middle of the step
                    for probe in self._probes:
                        probe.abandon()
                    raise
                for probe in self._probes:
                    probe.end()
                self.step = index + 1
                self._tick(1)
                self._save_if_due()
        finally:
            self._looping = False
            self._tick(0, last=True)

    def end(self) -> dict[str, RunSeries]:
        """Returns everything that was logged and measured, and detaches the probes."""
        series = self._logged.series()
        for probe in self._probes:
            probe.detach()
            series |= probe.series()
            self.notes += [note for note in probe.notes if note not in self.notes]
        return series

    def close(self) -> None:
        """Detaches the probes of a run that ended in an error."""
        for probe in self._probes:
            with contextlib.suppress(Exception):
                probe.detach()

    def _tick(self, steps: int, last: bool = False) -> None:
        self._ticks += steps
        now = time.monotonic()
        if self._ticks and (last or now - self._ticked_at > TICK_EVERY):
            self._follower.tick(self._ticks)
            if not self._speaks and (latest := self._logged.latest()):
                self._follower.say(", ".join(f"{name} {number_text(value)}" for name, value in latest.items()))
            self._ticks, self._ticked_at = 0, now

    def _save_if_due(self) -> None:
        if self._path is None or not self._resumable:
            return
        now = time.monotonic()
        due = self.step % self._every == 0 if self._every else now - self._saved_at >= self._save_after
        if not due:
            return
        state = {
            "step": self.step,
            "objects": {name: item.state_dict() for name, item in self._resumable.items()},
            "logged": self._logged.state(),
            "probes": [probe.state() for probe in self._probes],
            "random": global_state(),
        }
        write_state(self._path, state, self._identity)
        self._saved_at = time.monotonic()
        self._save_after = max(FIRST_SAVE, (self._saved_at - now) / SAVING_SHARE)

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Restores the saved state, right before the first step after it."""
        start_over = f"delete {self._path} to start over"
        try:
            missing = sorted(set(self._resumable) ^ set(state["objects"]))
            if missing:
                raise KymographError(f"{missing[0]} is resumable only in the code or only on disk; {start_over}")
            for name, item in self._resumable.items():
                item.load_state_dict(state["objects"][name])
            self._logged.load_state(state["logged"])
            if len(self._probes) != len(state["probes"]):
                raise KymographError(f"the watched networks are not those on disk; {start_over}")
            for probe, saved in zip(self._probes, state["probes"], strict=True):
                probe.load_state(saved)
            restore_global_state(state["random"])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise KymographError(f"the state on disk does not fit the resumable objects; {start_over}") from error


class LoggedSeries:
    """Every number that a run logs, by name."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Records numbers measured at a step: one each, or several by site (a mapping, or a vector)."""
        for name, value in values.items():
            column = self._columns.get(name)
            if column is not None and column.accepts_unchecked(step, value):
                column.add(step, value)
                continue
            sites, whole = _with_sites(name, value)
            if column is None:
                column = self._columns[name] = _Column(name, sites)
            if sites != column.sites:
                raise KymographError(f"{name} was logged with other sites before; log the same sites at every step")
            if column.steps and column.steps[-1] >= step:
                again = "twice at" if column.steps[-1] == step else "out of order at"
                raise KymographError(f"{name} was logged {again} step {step}; log a series once per step")
            column.add(step, whole)

    def series(self) -> dict[str, RunSeries]:
        """Returns every series."""
        return {name: column.series() for name, column in self._columns.items()}

    def latest(self, most: int = 3) -> dict[str, float]:
        """Returns the last value of at most ``most`` series with one number per step, in the order of logging."""
        plain = [column for column in self._columns.values() if column.sites is None and column.steps][:most]
        return {column.name: float(column.waiting[-1] if column.waiting else column.blocks[-1][-1]) for column in plain}

    def state(self) -> dict[str, Any]:
        """Returns everything logged so far, for the resume state."""
        return {
            name: {
                "step": series.step,
                "value": series.value,
                "sites": None if series.sites is None else list(series.sites),
            }
            for name, series in self.series().items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self._columns.clear()
        for name, saved in state.items():
            sites = None if saved["sites"] is None else tuple(saved["sites"])
            column = self._columns[name] = _Column(name, sites)
            column.steps = [int(step) for step in saved["step"]]
            column.blocks = [np.asarray(saved["value"], dtype=np.float64)]


class _Column:
    """One series: its steps, the values already converted to numbers, and those still waiting."""

    def __init__(self, name: str, sites: tuple[str, ...] | None) -> None:
        self.name, self.sites = name, sites
        self.steps: list[int] = []
        self.blocks: list[np.ndarray] = []
        self.waiting: list[Any] = []

    def accepts_unchecked(self, step: int, value: Any) -> bool:
        """Returns whether ``value`` is another plain number at a later step, which needs no further checks."""
        plain = type(value) is float or (type(value) is Tensor and not value.dim())
        return plain and self.sites is None and (not self.steps or self.steps[-1] < step)

    def add(self, step: int, value: Any) -> None:
        self.steps.append(step)
        if isinstance(value, Tensor):  # on the CPU a number costs less than a copy of the tensor
            value = value.item() if value.is_cpu and not value.dim() else value.detach().clone()
        self.waiting.append(value)
        if len(self.waiting) >= BLOCK:
            self.settle()

    def settle(self) -> None:
        """Converts the waiting values to numbers."""
        if not self.waiting:
            return
        if all(isinstance(value, Tensor) for value in self.waiting):
            block = torch.stack([value.to(torch.float64) for value in self.waiting]).cpu().numpy()
        else:
            block = np.array([np.asarray(_number(value), dtype=np.float64) for value in self.waiting])
        self.blocks.append(block.reshape(len(self.waiting), *(() if self.sites is None else (len(self.sites),))))
        self.waiting.clear()

    def series(self) -> RunSeries:
        self.settle()
        empty = np.empty((0,) if self.sites is None else (0, len(self.sites)))
        return RunSeries(np.array(self.steps), np.concatenate(self.blocks or [empty]), self.sites)


def _with_sites(name: str, value: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Returns the sites of a value, if it has several numbers, and the value as one number or one vector."""
    if isinstance(value, Mapping):
        items = list(value.values())
        if items and all(isinstance(item, Tensor) for item in items):
            return tuple(map(str, value)), torch.stack([item.reshape(()) for item in items])
        return tuple(map(str, value)), [_number(item) for item in items]
    if isinstance(value, Tensor | np.ndarray) and tuple(value.shape) not in ((), (1,)):
        if value.ndim != 1:
            raise KymographError(f"{name} has {value.ndim} axes; log one number, or one per site")
        return tuple(map(str, range(len(value)))), value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(str, range(len(value)))), [_number(item) for item in value]
    if isinstance(value, Tensor | np.ndarray):
        return None, value.reshape(())
    return None, _number(value, name)


def _number(value: Any, name: str = "a logged value") -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().to(torch.float64).numpy()
    if isinstance(value, bool | int | float | np.generic | np.ndarray | list):
        return value
    raise KymographError(f"{name} is a {type(value).__name__}; log numbers")


@contextlib.contextmanager
def seeded(seed: int, *names: str) -> Iterator[None]:
    """Seeds the global generators of torch, numpy and Python for a ``with`` block, and restores them afterwards.

    User code draws from them: `nn` constructors, dropout, shuffling data loaders. Seeded per run, its numbers are the
    same whatever ran before.
    """
    before = global_state()
    mixed = stream_seed(seed, *names)
    torch.manual_seed(mixed)
    np.random.seed(mixed % 2**32)  # noqa: NPY002
    random.seed(mixed)
    try:
        yield
    finally:
        restore_global_state(before)


def global_state() -> dict[str, Any]:
    """Returns the states of all global generators, in a form that a resume state can hold."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    version, numbers, gauss = random.getstate()
    started = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if started else [],
        "numpy": {"kind": kind, "keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
        "python": {"version": version, "numbers": list(numbers), "gauss": gauss},
    }


def restore_global_state(state: dict[str, Any]) -> None:
    """Restores a state that `global_state` returned."""
    torch.set_rng_state(state["torch"].to(torch.uint8))
    if state["cuda"]:
        torch.cuda.set_rng_state_all(list(state["cuda"]))
    numpy, python = state["numpy"], state["python"]
    np.random.set_state(  # noqa: NPY002
        (numpy["kind"], np.asarray(numpy["keys"]), numpy["position"], numpy["has_gauss"], numpy["cached"])
    )
    random.setstate((python["version"], tuple(python["numbers"]), python["gauss"]))


def nothing_drawn(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Returns whether nothing was drawn from the CPU generators between two states."""
    return (
        torch.equal(before["torch"], after["torch"])
        and before["python"]["numbers"] == after["python"]["numbers"]
        and before["numpy"]["position"] == after["numpy"]["position"]
        and np.array_equal(before["numpy"]["keys"], after["numpy"]["keys"])
    )
