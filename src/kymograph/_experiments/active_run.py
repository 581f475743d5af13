"""A run as seen by the user's own training loop: its seed and device, its logs, and how it resumes after a kill."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import torch

from kymograph import _streams as streams
from kymograph._errors import KymographError
from kymograph._experiments.global_generators import global_state, restore_global_state, seeded
from kymograph._experiments.logged_series import LoggedSeries
from kymograph._rounding import number_text
from kymograph._runs.record import RunSeries
from kymograph._runs.resume import FILE, read_resume_state, write_resume_state
from kymograph._sweep.progress import Follower

if TYPE_CHECKING:
    from torch import nn

    from kymograph._probes.probe import Probe


Item = TypeVar("Item")
FIRST_SAVE = 1.0
"""Seconds of training before its state is first saved."""
SAVING_SHARE = 0.02
"""The largest share of the time that saving may take."""
TICK_EVERY = 0.2
"""The least number of seconds between two progress reports."""


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
            self._state, why = read_resume_state(self._path, identity)
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
        from kymograph._probes.probe import Probe

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
        write_resume_state(self._path, state, self._identity)
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
