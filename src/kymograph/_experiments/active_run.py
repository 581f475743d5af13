"""A run as seen by the user's own training loop: its seed and device, its logs, and how it resumes after a kill."""

from __future__ import annotations

import contextlib
import json
import sys
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import torch

from kymograph import _streams as streams
from kymograph._errors import KymographError
from kymograph._experiments.construction import Resumable, constructed, plain_value
from kymograph._experiments.global_generators import global_state, restore_global_state, seeded
from kymograph._experiments.logged_series import LoggedSeries
from kymograph._experiments.sharded_state import with_shards, without_shards
from kymograph._io.documents import parse_json
from kymograph._io.writing import make_directory
from kymograph._probes.distributed import Ranks
from kymograph._rounding import number_text
from kymograph._runs.provenance import accelerator
from kymograph._runs.record import RunSeries
from kymograph._runs.resume import FILE, differences, flatten, read_resume_state, unflatten, write_resume_state
from kymograph._runs.steps import Step
from kymograph._runs.storable import stored_summary, summary_scalar
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
AGREE_EVERY = 0.5
"""The seconds between two times at which several ranks agree on whether to save."""
_seen: weakref.WeakKeyDictionary[Any, dict[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()
"""How each resumable object was constructed, by the run that it was first registered with and its name there."""
_trained: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()
"""The runs that have trained a resumable object in this process."""


class RunSummary(dict[str, Any]):
    """The summary numbers of a run, by name; calling it adds more.

    A value is checked and read when it is set, so that a tensor that changes later does not change the summary.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, summary_scalar(name, value, "run.summary"))

    def update(self, *values: Any, **named: Any) -> None:
        """Adds or replaces numbers, or none if one of them cannot be stored."""
        super().update(stored_summary(dict(*values, **named), "run.summary"))

    def __ior__(self, values: Any) -> Self:  # type: ignore[override, misc]
        self.update(values)
        return self

    def setdefault(self, name: str, value: Any = None) -> Any:
        """Adds a number unless there is one of this name; returns the one that is there."""
        if name not in self:
            self[name] = value
        return self[name]

    def __call__(self, **values: Any) -> None:
        """Adds or replaces numbers."""
        self.update(values)


class OtherProbe(KymographError):
    """A record cannot be continued, because its networks were measured in another way; nothing was restored."""


class _Updates:
    """How many updates the optimizers of a run's networks have made."""

    made = 0

    def count(self, *_: Any) -> None:
        """Counts an update; the hook of an optimizer."""
        self.made += 1


class ActiveRun:
    """One run of a study, as given to a study's training function and by ``with ky.record(...)``.

    >>> def train(run: ky.ActiveRun) -> None:
    ...     with run.seeded("init"):
    ...         model = torch.nn.Linear(4, 1).to(run.device)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=run.config["lr"])
    ...     run.watch(model, optimizer, every=10)
    ...     run.resumable(model=model, optimizer=optimizer)
    ...     for step in run.steps(20):
    ...         x = torch.randn(8, 4, generator=run.generator("batch", str(step)))
    ...         loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         run.log(loss=loss)
    >>> with ky.record("linear", arm="sgd", seed=42, config={"lr": 0.1}) as run:
    ...     train(run)
    >>> ky.Store.open("runs").select("linear").series("loss").shape
    (1, 1, 20)

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
        ranks: Ranks | None = None,
    ) -> None:
        """Prepares a run; a resume state in ``directory`` is used only if it has this ``identity``, and more.

        See `_whole_identity` for what the rest of it is. ``ranks`` are the processes that train it, if there are
        several; each has a resume state of its own.
        """
        self.arm, self.seed, self.config = arm, seed, dict(config)
        self.device = torch.device(device)
        self.step = 0
        self._follower, self._identity = follower, dict(identity)
        self._ranks = ranks
        name = FILE if ranks is None or ranks.rank == 0 else f"rank-{ranks.rank}-{FILE}"
        self._path = None if directory is None else directory / name
        self._agreed_step, self._agreed_at, self._agree_at = 0, time.monotonic(), 1
        self._logged = LoggedSeries()
        self._resumable: dict[str, Resumable] = {}
        self._constructed: dict[str, dict[str, Any]] = {}
        self._probes: list[Probe] = []
        self._accumulation: list[Any] = []
        self._state: dict[str, Any] | None = None
        self._items = self._first = 0
        self._open = False
        self._updates, self._updates_before = _Updates(), 0
        self._handles: list[Any] = []
        self._begun = self._training = self._resumed = False
        self._notes_before = 0
        self._every: int | None = None
        self._looping = False
        self._logged_without_loop = 0
        self._logged_outside: frozenset[str] = frozenset()
        self.notes: list[str] = []
        self.summary = RunSummary()
        """The run's summary numbers: ``run.summary["loss"] = loss``, or ``run.summary(loss=loss)``."""
        self._saved_at = time.monotonic()
        self._save_after = FIRST_SAVE
        self._ticks, self._ticked_at = 0, time.monotonic()
        self._speaks = False

    def seeded(self, *names: str) -> contextlib.AbstractContextManager[None]:
        """Seeds the global generators of torch, numpy and Python for a ``with`` block, from the run's seed and a name.

        Arms that use the same name at the same seed get the same numbers, whatever else they draw.
        """
        return seeded(self.seed, *(names or ("default",)))

    def generator(self, *names: str, per_rank: bool = False) -> torch.Generator:
        """Returns a new generator for the stream of this name at the run's seed.

        Several processes that train one network get the same numbers, unless ``per_rank`` asks for a stream of each.
        """
        if per_rank:
            names = (*names, f"rank {0 if self._ranks is None else self._ranks.rank}")
        return streams.generator(self.seed, *names)

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: Step | None = None, **named: Any) -> None:
        """Records numbers measured at this step: one each, or several by site, e.g. ``{"layer 1": 0.3}``.

        ``run.log(loss=loss)`` and ``run.log({"loss": loss})`` are equivalent. ``step`` may be a fraction, such as an
        epoch of 0.5. Steps that repeat or decrease are kept in the order of logging, with a note on the run. If a step
        or a number cannot be stored exactly, the call raises a `KymographError` and records nothing.
        """
        if values is not None and not isinstance(values, Mapping):
            raise KymographError("run.log takes numbers by name, e.g. run.log(loss=loss), and the step as step=...")
        if step is None:
            if not self._looping and not self._open:
                step = self._logged_without_loop
                self._logged_without_loop += 1
            else:
                step = self.step
        if self._probes and not self._looping and not self._open:
            self._say_unused({**(values or {}), **named})
        if values and named and (twice := values.keys() & named.keys()):
            raise KymographError(f"{min(twice)} is logged twice in one call; give it once")
        self._logged.log(step, {**(values or {}), **named})

    def say(self, text: str) -> None:
        """Shows a text wherever the run's progress is followed; default: the numbers it last logged."""
        self._speaks = True
        self._follower.say(text)

    def watch(self, model: nn.Module, optimizer: Any = None, every: int = 10, **options: Any) -> Probe:
        """Measures the network every ``every`` steps of `steps`, the first one included.

        The options are those of `kymograph.Probe`. If nothing can be measured, or not at all layers, the first measured
        step prints why and notes it in the record.

        An optimizer that Accelerate has prepared knows its GradScaler, and where a step ends: with gradient
        accumulation, `steps` counts the batches up to the next update as one step.
        """
        from kymograph._probes.probe import Probe
        from kymograph._probes.weights import optimizers_in

        optimizers = [] if optimizer is None else list(optimizer) if isinstance(optimizer, Iterable) else [optimizer]
        prepared = [one for one in optimizers if hasattr(one, "gradient_state")]
        for scaler in [one.scaler for one in prepared if one.scaler is not None][:1]:
            options.setdefault("scaler", scaler)
        optimizers = optimizers_in(optimizers)
        probe = Probe(model, optimizers or None, every=every, **options)
        run = weakref.ref(self)  # a run that nobody refers to ends by itself
        probe.say = lambda note: None if (this := run()) is None else this._print(note)
        probe.attach()
        self._probes.append(probe)
        self._accumulation += [one.gradient_state for one in prepared]
        count = self._updates.count  # not a method of the run: an optimizer must not keep it alive
        self._handles += [one.register_step_post_hook(count) for one in optimizers]
        return probe

    def resumable(self, *, every: int | None = None, **objects: Resumable) -> None:
        """Registers objects whose state is saved during training and restored when a killed run resumes.

        They are compared with those of the earlier start as they are when the loop begins, before anything is restored:
        if they were constructed differently, e.g. with another learning rate, the run starts over and says so.

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
        items again, which it does if its random numbers come from the run. If anything that the numbers depend on has
        changed since, the run starts over. Either is printed and noted in the record.
        """
        if self._looping:
            raise KymographError("run.steps cannot be nested; count the outer loop, or the inner one")
        start, self._looping = self._items, True
        for name, item in self._resumable.items():
            if name not in self._constructed:
                self._constructed[name] = self._first_seen(name, item)
        if not self._begun:
            self._begun = True
            self._find_state()
        try:
            for index, item in enumerate(range(over) if isinstance(over, int) else over, start=start):
                if index < self._first:
                    self._tick(1)
                    self._items = self.step = index + 1
                    if self._state is not None and self._items == self._first:
                        self._restore(self._state)  # where it was saved: before the next item is drawn
                        self._state, self._resumed = None, True
                        self._announce(f"resumed at step {self.step} of an earlier start")
                        self._follower.say(f"resumed at step {self.step}")
                    continue
                if not self._training:
                    self._note_training()
                if not self._open:
                    self.begin_step(self.step)
                try:
                    yield item
                except BaseException:  # the loop was left in the middle of the step
                    self.abandon_step()
                    raise
                self._items = index + 1
                if all(state.sync_gradients for state in self._accumulation):
                    self.end_step()
                    self._save_if_due()
        finally:
            self._looping = False
            self._tick(0, last=True)

    def begin_step(self, step: int) -> None:
        """Begins a step of training, in a loop that is not `steps`: that of a framework, whose callbacks you write.

        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with ky.record("callbacks", arm="sgd", seed=42) as run:
        ...     probe = run.watch(model, optimizer, every=1)
        ...     for step in range(3):
        ...         run.begin_step(step)
        ...         model(torch.ones(2, 4)).mean().backward()
        ...         optimizer.step()
        ...         run.end_step()
        >>> probe.series()["weight_norm"].step.tolist()
        [0, 1, 2]
        """
        self.step, self._open = step, True
        self._updates_before = self._updates.made
        for probe in self._probes:
            probe.begin(step)

    def end_step(self) -> None:
        """Ends the step that `begin_step` began."""
        self._open = False
        for probe in self._probes:
            probe.end()
            self._note(probe)
        self.step += 1
        self._tick(1)

    def abandon_step(self) -> None:
        """Drops the step that `begin_step` began, e.g. because it failed."""
        self._open = False
        for probe in self._probes:
            probe.abandon()

    def suspend_probes(self) -> None:
        """Keeps what the networks compute from now on out of the step, e.g. a validation in the middle of it."""
        for probe in self._probes:
            probe.suspend()

    def resume_probes(self) -> None:
        """Ends what `suspend_probes` began."""
        for probe in self._probes:
            probe.resume()

    def state_dict(self) -> dict[str, Any]:
        """Returns the record so far, for a checkpoint that holds weights and optimizer too: tensors, and a text.

        `load_state_dict` restores it in a run whose weights and optimizer are restored. A step counts once its
        optimizer has made the update, so that both agree wherever in the loop a checkpoint is written.
        """
        record = {**self._record(), "settings": {"arm": self.arm, "seed": self.seed, **self.config}}
        if self._open and self._updates.made > self._updates_before:
            for probe in self._probes:
                probe.end()
            record |= {"step": self.step + 1, "items": self._items + 1, "probes": [one.state() for one in self._probes]}
        for state, probe in zip(record["probes"], self._probes, strict=True):
            if probe.strategy.shards_weights:
                state["gradients"] = []  # of this rank's shards, and a framework keeps the record of rank 0
        tensors, shape = flatten(record)
        return {"step": record["step"], "record": json.dumps(shape, allow_nan=False), "tensors": tensors}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, after the networks are watched; the run goes on with the next step.

        What was recorded since is dropped, so that the record has every step once. A note says that the run was
        resumed, and which settings differ from those of its earlier start.
        """
        try:
            saved = unflatten(parse_json(state["record"].encode()), state["tensors"])
            settings, step = dict(saved["settings"]), int(saved["step"])
            if len(saved["probes"]) != len(self._probes):
                raise KymographError(
                    "the checkpoint's record has other watched networks; call run.watch before the checkpoint is loaded"
                )
            for probe, probed in zip(self._probes, saved["probes"], strict=True):
                if not probe.fits(probed):
                    raise OtherProbe(
                        "the checkpoint's record has other quantities or layers; watch with the same level and layers"
                    )
            self.abandon_step()
            self._restore_record(saved)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise KymographError(
                "the checkpoint's record does not fit this run; watch the same network with the same options"
            ) from error
        self._begun = self._resumed = True  # a state that this run has saved itself is not looked for
        different = differences(settings, {"arm": self.arm, "seed": self.seed, **self.config})
        self._announce(f"resumed at step {step} from a checkpoint{different and f' that differs in {different}'}")

    def end(self) -> dict[str, RunSeries]:
        """Returns everything that was logged and measured, and detaches the probes."""
        if self._state is not None:
            raise KymographError(
                f"the run ended after {self.step} steps, and its earlier start had reached step {self._first}; delete "
                f"{self._path} to start over"
            )
        series = self._logged.series()
        self._remove_hooks()
        if self._ranks is not None and not self._probes:  # probes wait for each other
            while any(kind != "end" for kind, _ in self._ranks.exchange("end")):
                pass
        for probe in self._probes:
            probe.detach()
            for name, measured in probe.series().items():
                number = 2
                while (unique := name if number == 2 and name not in series else f"{name} ({number})") in series:
                    number += 1
                series[unique] = measured
                if unique != name:
                    self.notes.append(f"several series are called {name}; a later one is stored as {unique}")
            probe.say_unused()
            self._note(probe)
        return series

    def close(self) -> None:
        """Detaches the probes of a run that ended in an error."""
        self._remove_hooks()
        for probe in self._probes:
            with contextlib.suppress(Exception):
                probe.detach(combine=False)

    def _remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _tick(self, steps: int, last: bool = False) -> None:
        self._ticks += steps
        now = time.monotonic()
        if self._ticks and (last or now - self._ticked_at > TICK_EVERY):
            self._follower.tick(self._ticks)
            if not self._speaks and (latest := self._logged.latest()):
                self._follower.say(", ".join(f"{name} {number_text(value)}" for name, value in latest.items()))
            self._ticks, self._ticked_at = 0, now

    def _find_state(self) -> None:
        """Reads the state of an earlier start; one that cannot be used is announced, and the run starts over."""
        self._notes_before = len(self.notes)
        if self._path is None:
            return
        self._identity |= self._whole_identity()
        self._state, why = read_resume_state(self._path, self._identity)
        if self._ranks is not None:
            self._state, why = self._common_state(self._ranks, self._path, self._state, why)
        if self._state is not None and not (type(step := self._state.get("step")) is int and step > 0):
            self._state, why = None, "its state on disk has no step number"
        if self._state is not None and not self._resumable:
            self._state, why = None, "nothing was registered with run.resumable before its first loop"
        if self._state is not None:
            self._first = self._state.get("items", self._state["step"])
        elif why:
            self._announce(f"the run started over, because {why}")

    def _common_state(
        self, ranks: Ranks, path: Path, state: dict[str, Any] | None, why: str
    ) -> tuple[dict[str, Any] | None, str]:
        """Returns this rank's state at the last step of which every rank has one, or None and why there is none.

        The one before the last is kept: a kill may come when some ranks have saved and others have not.
        """
        before, _ = read_resume_state(_previous(path), self._identity)
        states = {one["step"]: one for one in (before, state) if one is not None}
        told = [parse_json(text) for _, text in ranks.exchange("state", json.dumps([sorted(states), why]).encode())]
        common = set(states).intersection(*(steps for steps, _ in told))
        if common:
            return states[max(common)], ""
        if any(steps for steps, _ in told):
            return None, next(filter(None, (text for _, text in told)), "its ranks have saved different steps")
        return None, next(filter(None, (text for _, text in told)), "")

    def _whole_identity(self) -> dict[str, Any]:
        """Returns what the numbers of the loop depend on, as far as a run can see it, by name, when its loop begins.

        That is how torch computes, how the resumable objects were constructed, and what is measured.
        """
        settings = {name: value for name, value in accelerator(str(self.device)).items() if name != "name"}
        together = {} if self._ranks is None else {"ranks": self._ranks.size, "rank": self._ranks.rank}
        return {
            **together,
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            **{f"{name} of the device": plain_value(value) for name, value in settings.items()},
            **{name: value for part in self._constructed.values() for name, value in part.items()},
            **{f"quantities of probe {number}": ", ".join(one.names) for number, one in enumerate(self._probes, 1)},
        }

    def _first_seen(self, name: str, item: Resumable) -> dict[str, Any]:
        """Returns how an object was constructed.

        One that an earlier start of this run has trained in this process, as in a notebook whose loop is executed again
        after an interruption, is no longer as it was constructed: what was seen at that start counts.
        """
        try:
            known = _seen.setdefault(item, {})
        except TypeError:  # it cannot be referenced weakly
            known = {}
        return known.setdefault((self._identity.get("run"), name), constructed(name, item))

    def _note_training(self) -> None:
        """Notes that this run trains its objects; raises if it does so from the start, and has trained them before."""
        self._training, run = True, self._identity.get("run")
        for name, item in self._resumable.items() if run is not None else ():
            with contextlib.suppress(TypeError):
                runs = _trained.setdefault(item, set())
                if run in runs and not self._resumed:
                    raise KymographError(
                        f"the run starts from its first step, but an earlier start in this process has trained {name}; "
                        f"construct {name} again, and start the run again"
                    )
                runs.add(run)

    def _announce(self, note: str) -> None:
        """Prints a note and stores it with the run."""
        self.notes.append(note)
        self._print(note)

    @property
    def processes(self) -> dict[str, Any]:
        """How several processes train the run: their number, strategy and mesh, for its provenance; empty: one does."""
        if self._ranks is None:
            return {}
        strategies = [probe.strategy for probe in self._probes]
        names = ", ".join(dict.fromkeys(one.name for one in strategies)) or "not watched"
        mesh = {"mesh": dict(strategies[0].mesh)} if strategies and strategies[0].mesh else {}
        return {"ranks": self._ranks.size, "strategy": names, **mesh}

    def _print(self, note: str) -> None:
        if self._ranks is None or self._ranks.rank == 0:  # the others have the same notes
            print(f"note: {self.arm}, seed {self.seed}: {note}", file=sys.stderr)

    def _note(self, probe: Probe) -> None:
        """Stores with the run what its probe notes."""
        if probe.notes:
            self.notes += [note for note in probe.notes if note not in self.notes]

    def _say_unused(self, names: Iterable[str]) -> None:
        """Says that nothing is measured if a series grows outside `steps` and the probes have not begun."""
        again, self._logged_outside = self._logged_outside.intersection(names), self._logged_outside.union(names)
        for probe in self._probes if again else ():
            probe.say_unused()

    def _save_if_due(self) -> None:
        if self._path is None or not self._resumable:
            return
        now = time.monotonic()
        due = self.step % self._every == 0 if self._every else now - self._saved_at >= self._save_after
        if self._ranks is not None and not self._every:
            due = self._agree(self._ranks, due, now)
        if not due:
            return
        self._save(self._path)
        self._saved_at = time.monotonic()
        self._save_after = max(FIRST_SAVE, (self._saved_at - now) / SAVING_SHARE)

    def _agree(self, ranks: Ranks, due: bool, now: float) -> bool:
        """Returns whether all ranks save now, as rank 0 decides; asked at steps that all of them know beforehand."""
        if self.step < self._agree_at:
            return False
        steps = max(self.step - self._agreed_step, 1)
        at_once = int(AGREE_EVERY * steps / max(now - self._agreed_at, 1e-3))
        wish = [due, self.step + min(max(at_once, 1), 2 * steps)]
        kind, text = ranks.exchange("save", json.dumps(wish).encode())[0]
        self._agreed_step, self._agreed_at = self.step, now
        if kind == "end":  # rank 0 has no more steps
            self._agree_at = sys.maxsize
            return False
        due, self._agree_at = parse_json(text)
        return due

    def _save(self, path: Path) -> None:
        """Saves everything from which the run can go on after this step."""
        state = {
            **self._record(),
            "objects": {name: with_shards(item.state_dict()) for name, item in self._resumable.items()},
            "constructed": self._constructed,
            "random": global_state(),
        }
        make_directory(path.parent)  # another sweep that computed the same run may have ended, and cleaned up
        if self._ranks is not None:
            with contextlib.suppress(FileNotFoundError):
                path.replace(_previous(path))
        write_resume_state(path, state, self._identity)

    def _record(self) -> dict[str, Any]:
        """Returns everything that was recorded so far."""
        return {
            "step": self.step,
            "items": self._items,
            "logged": self._logged.state(),
            "probes": [probe.state() for probe in self._probes],
            "summary": dict(self.summary),
            "notes": self.notes[self._notes_before :],
        }

    def _restore_record(self, saved: Mapping[str, Any]) -> None:
        """Restores what `_record` returned."""
        self._logged.load_state(saved["logged"])
        for probe, state in zip(self._probes, saved["probes"], strict=True):
            probe.load_state(state)
        self.summary.update(saved["summary"])
        self.notes += [note for note in saved["notes"] if note not in self.notes]
        self.step, self._items = saved["step"], saved.get("items", saved["step"])

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Restores the saved state, right after the last step before it."""
        start_over = f"delete {self._path} to start over"
        try:
            for name in {**self._constructed, **state["constructed"]}:  # some may have been registered after a loop
                there, here = state["constructed"].get(name), self._constructed.get(name)
                if there is None or here is None:
                    raise KymographError(f"{name} is resumable only in the code or only on disk; {start_over}")
                if different := differences(there, here):
                    raise KymographError(f"the run differs from its earlier start in {different}; {start_over}")
            for name, item in self._resumable.items():
                item.load_state_dict(without_shards(state["objects"][name], self._resumable.values()))
            if len(self._probes) != len(state["probes"]):
                raise KymographError(f"the watched networks are not those on disk; {start_over}")
            self._restore_record(state)
            restore_global_state(state["random"])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise KymographError(f"the state on disk does not fit the resumable objects; {start_over}") from error


def _previous(path: Path) -> Path:
    """Returns the path of the state before the last, which one of several ranks keeps."""
    return path.with_name(f"previous-{path.name}")
