"""A probe on any module in any training loop: what is read, at which layers, at which steps."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from kymograph._errors import KymographError, first_line
from kymograph._probes.distributed import (
    RankReadings,
    Strategy,
    active_data_parallel,
    ranks_here,
    some_rows,
    strategy_of,
)
from kymograph._probes.fixed_batch import FixedBatch, Loss
from kymograph._probes.hooks import LayerHook, Session
from kymograph._probes.layers import can_be_called, compiled_modules, find_layers, unwrapped
from kymograph._probes.points import BackwardPasses, GradientPoints, Scaler
from kymograph._probes.quantities import LoadedQuantity, QuantityInput, chosen, load
from kymograph._probes.readings import (
    BLOCK,
    Column,
    Key,
    MeasuredStep,
    Number,
    ReadingTable,
    Row,
    combine_columns,
    derived,
)
from kymograph._probes.schedule import Schedule
from kymograph._probes.site_families import counted, families
from kymograph._probes.weights import WeightReader, optimizers_in
from kymograph._runs.record import RunSeries

NETWORK = "network"
"""The site of quantities of the whole network."""
NO_STEP = "nothing is measured, because no step was begun: use `with probe.step(step):`, or loop over `run.steps(...)`"
_AT_LAYERS = (QuantityInput.OUTPUT, QuantityInput.OUTPUT_GRADIENT, QuantityInput.ATTENTION)
_AT_WEIGHTS = (
    QuantityInput.WEIGHT, QuantityInput.UPDATE, QuantityInput.WEIGHT_GRADIENT, QuantityInput.RAW_WEIGHT_GRADIENT,
)  # fmt: skip
_UNSCALED = (QuantityInput.OUTPUT_GRADIENT, QuantityInput.RAW_WEIGHT_GRADIENT)
_TWIN = "the eager twin"
_ON_TWIN = (
    "outputs and their gradients are measured on the model's eager twin, the same weights in evaluation mode on the "
    "batch of the probe"
)
_FIRST_BLOCK = 4
"""How many measured steps of several ranks are combined at first; then twice as many each time, up to `BLOCK`."""
_MOST_NAMES = 3
"""How many families of layers a note names."""
_MOST_NOTES = 4
"""How many notes of one step are printed; all of them are kept."""


class Probe:
    """Reads quantities of a network's layers while an ordinary loop trains it; the weights come out bit-identical.

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    >>> with ky.Probe(model, optimizer, level="standard", every=10) as probe:
    ...     for step in range(21):
    ...         with probe.step(step):
    ...             optimizer.zero_grad()
    ...             torch.nn.functional.cross_entropy(model(x), y).backward()
    ...             optimizer.step()
    >>> norms = probe.series()["output_norm"]
    >>> norms.step.tolist(), norms.sites, norms.value.shape
    ([0, 10, 20], ('0', '1', '2'), (3, 3))

    Args:
        model: any module; it may be wrapped, partly frozen, on several devices, under autocast or checkpointed.
        optimizer: the optimizer or optimizers, at whose step weight gradients are read; without one, at the step of any
            optimizer of these weights, or else when the step ends.
        level: ``light``, ``standard`` or ``deep``, or names of quantities.
        every: the interval between measured steps. The others cost next to nothing: no hook is attached.
        layers: names or patterns: ``blocks.*`` (the blocks), ``blocks.**`` (all inside them), ``blocks.*.mlp``; None:
            every block, module without children, attention and module with parameters of its own.
        budget: the share of training time that measuring may add, e.g. 0.05; ``every`` is then the shortest interval.
        loss: ``loss(model, batch)`` returns a tensor with one entry; for the quantities of the whole network.
        batch: the fixed batch that these are computed on.
        scaler: the ``torch.amp.GradScaler`` of the loop, if it has one: gradients are divided by its scale.
        gather: whether several ranks send rows of their outputs to one another at every measured step, for quantities
            that do not follow from those of the parts, such as ``effective_rank``; otherwise these are not measured.

    If a layer is called several times in a step (a shared module, several micro-batches), the readings of all its calls
    are combined as the quantity's ``together`` says. Calls under ``no_grad`` are not part of the step. What cannot be
    measured is NaN, and `notes` says why; what the first measured step tells is printed at once. A compiled model's
    outputs are read on its eager twin: the same weights, in evaluation mode, on ``batch``. Weights, updates and weight
    gradients are still those of the training step.

    Where several processes train the network (DistributedDataParallel, ``fully_shard``), every one of them must make
    the probe and the same steps. Each measures its share; the readings are combined after 4, 8, 16, 32 and then every
    64 measured steps, and when the probe is detached. `series` then has those of the whole batch and the whole weights,
    as far as they are combined, on every rank.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        level: str | Iterable[str] = "light",
        every: int = 10,
        layers: Sequence[str] | None = None,
        budget: float | None = None,
        loss: Loss | None = None,
        batch: Any = None,
        scaler: Scaler | None = None,
        gather: bool = False,
    ) -> None:
        self.names = chosen(level)
        self._quantities = load(self.names)
        self._ranks = ranks_here()
        self.strategy = Strategy("none")
        """How several processes train the network."""
        self._of_gathered: dict[str, Callable[[Tensor], Number]] = {}
        if self._ranks is not None:
            self._share_quantities(model, self._ranks.size, gather)
        self.schedule = Schedule(every, budget)
        found_layers = find_layers(model, layers)
        self._layer_names = [layer.name for layer in found_layers]
        self._model = unwrapped(model)
        self._optimizers = optimizers_in(optimizer)
        self._table = ReadingTable()
        quantities = list(self._quantities.values())
        self._passes = BackwardPasses(scaler)
        self._session = Session(self._passes, quantities)
        self._network = [quantity for quantity in quantities if quantity.input is QuantityInput.NETWORK]
        hooks = [(layer.module, LayerHook(layer, quantities, self._session)) for layer in found_layers]
        self._hooks = [(module, hook) for module, hook in hooks if hook.needed]
        self._weights = WeightReader(found_layers, quantities)
        self._session.notes |= self._weights.notes()
        self._points = GradientPoints(self._weights, self._optimizers, self._passes, quantities, self._model)
        self._unknown_since, self._scaled = 0, set[int]()  # measured steps whose gradients have an unknown scale
        self._handles: list[RemovableHandle] = []
        self._fixed = None if loss is None or batch is None else FixedBatch(self._model, loss, batch)
        self._twin = bool(compiled_modules(model)) and any(quantity.input in _AT_LAYERS for quantity in quantities)
        self._refuse_impossible()
        if not any(isinstance(layer.module, nn.MultiheadAttention) for layer in found_layers):
            for name in (quantity.name for quantity in quantities if quantity.input is QuantityInput.ATTENTION):
                self._session.notes[name] = (
                    f"{name} is not measured: no nn.MultiheadAttention is among the layers, and the weights inside "
                    "scaled_dot_product_attention cannot be seen"
                )
        self._combined: RankReadings | None = None
        self._replicated: set[str] | None = None  # sites whose outputs are the same on all ranks; None: not yet known
        self._others_failed: set[str] = set()
        self._block = _FIRST_BLOCK
        if self._ranks is not None:
            self._share_readings()
        self._attached = self._was_attached = self._began = False
        self._step: int | None = None
        self._measuring = False
        self._layers_known = not self._hooks  # which layers run: seen in the first measured step that trains
        self._twin_row: Row = {}  # the eager twin's readings, until it is known whether they are needed
        self._unseen: set[str] = set()  # layers that were compiled after the probe was made
        self._waiting: list[RemovableHandle] = []
        self._said, self._said_unused = 0, False
        self.say: Callable[[str], None] = _print_note if self._ranks is None or self._ranks.rank == 0 else _say_nothing
        """What is called with a note as soon as there is one; a run sets it."""

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, kind: type[BaseException] | None, *reason: object) -> None:
        if kind is None:
            self.say_unused()
        self.detach(combine=kind is None)

    def attach(self) -> None:
        """Enables `step`; hooks are attached for the measured steps only."""
        self._attached = self._was_attached = True
        if not self._began and not self._waiting:
            self._waiting = [one.register_step_post_hook(self._after_unmeasured_update) for one in self._optimizers]

    def detach(self, *, combine: bool = True) -> None:
        """Removes every hook and frees the copies of the weights; readings are kept.

        Of several ranks, all must call it: the last readings are combined, and a rank with fewer steps than others
        waits for them. ``combine=False``: drop these readings, because the training has failed.
        """
        if combine and self._attached:
            self._end_with_others()
        self._session.abandon()
        self._remove_hooks()
        self._stop_waiting()
        self._weights.release()
        self._table.flush()
        self._attached = self._measuring = False

    @contextmanager
    def step(self, step: int) -> Iterator[bool]:
        """Measures one training step, if it is due: forward pass, backward pass and update in a ``with`` block.

        Yields whether the step is measured.
        """
        self.begin(step)
        try:
            yield self._measuring
        except BaseException:
            self.abandon()
            raise
        self.end()

    def begin(self, step: int) -> None:
        """Begins a step, as entering `step` does."""
        try:
            self._step = operator.index(step)
        except TypeError:
            raise KymographError(f"a probe counts whole steps, not {step!r}; give it an integer") from None
        if not self._attached:
            raise KymographError("the probe is not attached; use it in a with statement, or call attach() first")
        if self._session.row is not None:
            self._session.abandon()  # an earlier step was not ended
            self._points.abandon()
        self._began = True
        self._stop_waiting()
        self.schedule.begin()
        self._measuring = self.schedule.due(self._step)
        if not self._measuring:
            self._remove_hooks()
            return
        row: Row = {}
        self._points.begin()
        self._session.row = row
        if not self._layers_known and not self._twin:
            self._see_which_layers_are_compiled()
        self._at_network(row)
        if self._combined is not None and not self._table.measured:
            self._session.fingerprints = {}
        if not self._handles:
            self._add_hooks()
        self._weights.begin(row)

    def end(self) -> None:
        """Ends the step and keeps its readings."""
        if self._step is None:
            return
        measured, step, self._step = self._measuring, self._step, None
        row = self._session.row
        if measured and row is not None:
            self._points.end(row)
            self._note_points(step)
            self._weights.end(row)
            if not self._layers_known:
                self._see_which_layers_ran(step, row)
            self._table.add(step, self._session.close())
            if self._combined is not None:
                self._session.fingerprints = self._session.fingerprints or None
                if self._table.measured - len(self._table.steps) >= self._block:
                    self._block = 1 if self._of_gathered else min(2 * self._block, BLOCK)
                    self.combine()
            if not self.schedule.constant or not self._layers_known:
                self._remove_hooks()
            if len(self._session.notes) > self._said:
                self._say_new_notes()
        self._measuring = False
        self.schedule.end(step, measured)

    def combine(self) -> None:
        """Combines the readings so far with those of the other ranks, if there are any; all of them must call it."""
        if self._combined is not None:
            told, combined = self._combined.exchange(*self._table.take(), self._told())
            self._hear(told)
            self._keep(*combined())

    def abandon(self) -> None:
        """Drops the current step, e.g. because it failed."""
        self._session.abandon()
        self._points.abandon()
        self._remove_hooks()
        self._step, self._measuring = None, False

    def suspend(self) -> None:
        """Keeps what the network computes until `resume` out of the current step, e.g. a validation."""
        self._remove_hooks()

    def resume(self) -> None:
        """Goes on measuring the current step, if it is measured."""
        if self._measuring and not self._handles:
            self._add_hooks()

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence per layer or quantity that cannot be measured, and one if the probe was never used."""
        return (*self._session.notes.values(), *((NO_STEP,) if self._is_unused else ()))

    @property
    def _is_unused(self) -> bool:
        return self._was_attached and not self._began and not self._table.steps

    def say_unused(self) -> None:
        """Says, once, that training goes on and no step was begun, if that is so."""
        if self._is_unused and not self._said_unused:
            self._said_unused = True
            self.say(NO_STEP)

    def state(self) -> dict[str, Any]:
        """Returns everything the probe needs to resume after a kill: tensors, arrays, numbers and strings.

        Of several ranks, all must call it, and each has a state of its own.
        """
        self.combine()
        return {
            "quantities": list(self.names),
            "readings": self._table.state(),
            "schedule": self.schedule.state(),
            "layers": [hook.state() for _, hook in self._hooks],
            "layer names": self._layer_names,
            "gradients": self._weights.state(),
            "fixed batch": {} if self._fixed is None else dict(self._fixed.state),
            "notes": dict(self._session.notes),
            "layers known": self._layers_known,
            "unseen": sorted(self._unseen),
            "twin": self._twin,
            "scaled": sorted(self._scaled),
            "replicated": None if self._replicated is None else sorted(self._replicated),
        }

    def fits(self, state: Mapping[str, Any]) -> bool:
        """Returns whether a `state` has this probe's quantities and layers."""
        return (
            list(state["quantities"]) == list(self.names)
            and len(state["layers"]) == len(self._hooks)
            and list(state.get("layer names", self._layer_names)) == self._layer_names  # earlier versions have none
        )

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the `state` of a probe on the same network."""
        if not self.fits(state):
            raise KymographError(
                "the state belongs to a probe with other quantities or layers; make the probe with the same arguments"
            )
        self._table.load_state(state["readings"])
        self.schedule.load_state(state["schedule"])
        for (_, hook), saved in zip(self._hooks, state["layers"], strict=True):
            hook.load_state(saved)
        self._weights.load_state(state["gradients"])
        if self._fixed is not None:
            self._fixed.state = dict(state["fixed batch"])
        self._session.notes |= state["notes"]
        self._said = len(self._session.notes)
        self._layers_known = state.get("layers known", self._layers_known)  # states of earlier versions have none
        self._unseen = set(state.get("unseen", ()))
        self._twin = state.get("twin", self._twin)
        self._unknown_since, self._scaled = len(self._table.steps), set(state.get("scaled", ()))
        known = state.get("replicated")
        self._replicated = None if known is None else set(known)

    def series(self) -> dict[str, RunSeries]:
        """Returns each quantity that some layer has, over the measured steps, with the layers as its sites.

        Values are (steps, layers), NaN where nothing was read; (steps,) for quantities of the whole network.
        """
        return {name: series for name, series in self._all_series().items() if series.sites != ()}

    def rows(self, since: int = 0) -> list[MeasuredStep]:
        """Returns the readings step by step, from the measured step with index ``since``."""
        every_series = self._all_series()
        return [
            MeasuredStep(
                step,
                {
                    name: {NETWORK: float(series.value[index])}
                    if series.sites is None
                    else dict(zip(series.sites, series.value[index].tolist(), strict=True))
                    for name, series in every_series.items()
                },
            )
            for index, step in enumerate(self._table.steps)
        ][since:]

    def _share_quantities(self, model: nn.Module, size: int, gather: bool) -> None:
        """Prepares to measure a part of the batch and the weights.

        What does not follow from parts is not computed, unless the parts are to be gathered.
        """
        self.strategy = strategy_of(model, size)
        self._quantities |= {name: one for name, one in load(["output_size"]).items() if name not in self._quantities}
        for name, quantity in self._quantities.items():
            if quantity.across == "undefined" and gather and quantity.units and not quantity.wants_layer:
                self._of_gathered[name] = quantity.function
                self._quantities[name] = replace(quantity, function=partial(some_rows, ranks=size))
            elif quantity.across == "undefined":
                self._quantities[name] = replace(quantity, function=_not_a_number, wants_layer=False, units=False)

    def _share_readings(self) -> None:
        """Prepares to combine readings; raises if the ranks do not measure the same layers."""
        ranks, notes = self._ranks, self._session.notes
        assert ranks is not None
        self._holders = self._weights.holders(ranks.rank)
        self._combined = RankReadings(
            ranks, self._rule, self._counts, lambda key: ("output_size", key[1]), self._of_gathered
        )
        self._table.share()
        self._session.shared = self.schedule.agreed = True
        self._passes.divisor = self.strategy.divisor
        measured = json.dumps([self._layer_names, list(self.names), self.schedule.every, self.schedule.budget])
        for rank, (_, theirs) in enumerate(ranks.exchange("record", hashlib.sha256(measured.encode()).digest())):
            if theirs != hashlib.sha256(measured.encode()).digest():
                raise KymographError(
                    f"rank {rank} measures other layers or quantities than rank {ranks.rank}; a network whose layers "
                    "are divided among ranks (pipeline parallelism) cannot be measured as one"
                )
        self._block = 1 if self._of_gathered else _FIRST_BLOCK
        for quantity in self._quantities.values():
            if quantity.across == "undefined" and quantity.name not in self._of_gathered:
                notes[quantity.name] = (
                    f"{quantity.name} is not measured: that of a batch does not follow from those of its parts on "
                    f"{ranks.size} ranks; gather=True sends rows of the outputs"
                )
            elif quantity.input is QuantityInput.NETWORK and self.strategy.shards_weights:
                notes[quantity.name] = f"{quantity.name} is not measured: no rank has all weights (fully_shard)"
        if self._twin and self.strategy.shards_weights:
            raise KymographError(
                "the model is compiled and sharded: choose quantities of the weights, e.g. level=['weight_norm']"
            )

    def _counts(self, key: Key) -> bool:
        """Returns whether this rank's reading counts; of what all ranks have, the first one's does."""
        holder = self._holders.get(key[1]) if self._quantities[key[0]].input in _AT_WEIGHTS else None
        return True if holder is None else holder[1]

    def _rule(self, key: Key) -> str:
        """Returns how the readings of all ranks are combined into one."""
        name, site = key
        quantity = self._quantities[name]
        at_layer = quantity.input in _AT_LAYERS
        if self.strategy.name == "none" or (at_layer and self._twin) or quantity.input is QuantityInput.NETWORK:
            return "first"
        if not at_layer:
            if self._holders[site][0] == "replicated":
                return "first"
            return "none" if quantity.together == "mean" else quantity.together
        if name in self._of_gathered and site not in self._session.failed | self._others_failed:
            return "gathered"
        if quantity.across == "undefined" or site in self._session.failed | self._others_failed:
            return "none"
        if site in (self._replicated or ()):
            # The gradient there is a sum over ranks, of which only the lengths of the terms are known.
            return "none" if quantity.input is QuantityInput.OUTPUT_GRADIENT else "first"
        return quantity.across or quantity.together

    def _told(self) -> dict[str, Any]:
        """Returns what this rank tells the others with its readings."""
        prints, self._session.fingerprints = self._session.fingerprints, None
        return {
            "interval": self.schedule.proposed,
            "strategy": self.strategy.name,
            "fingerprints": prints,
            "failed": sorted(self._session.failed),
            "notes": self._session.notes,
        }

    def _hear(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Acts on what the ranks said: rank 0 decides the schedule."""
        notes = self._session.notes
        self.schedule.interval = told[0]["interval"]
        for rank, theirs in enumerate(told):
            self._others_failed |= set(theirs["failed"])
            for name, note in theirs["notes"].items():
                if name not in told[0]["notes"]:
                    notes.setdefault(name, f"on rank {rank}: {note}")
        prints = [theirs["fingerprints"] for theirs in told]
        if self._replicated is None and all(prints):
            first, *others = prints
            same = {site for site, seen in first.items() if seen and all(one.get(site) == seen for one in others)}
            if first and len(same) == sum(map(bool, first.values())):
                notes["same batch"] = (
                    "every rank has trained on the same batch: its data are not divided among the ranks"
                )
                same = set()
            self._replicated = same
            at = [
                quantity.name
                for quantity in self._quantities.values()
                if quantity.input is QuantityInput.OUTPUT_GRADIENT
            ]
            if same and at:
                notes["replicated"] = (
                    f"{', '.join(at)} is not measured at {self._named(sorted(same))}: the output does not depend on "
                    "the batch, and its gradient is a sum over ranks"
                )
        if told[0]["strategy"] == "none":
            notes["strategy"] = (
                "the network is neither in DistributedDataParallel nor sharded by fully_shard: what rank 0 trains is "
                "measured, and nothing of the other ranks"
            )
        if len(notes) > self._said:
            self._say_new_notes()

    def _keep(self, steps: Sequence[int], rows: Sequence[Row]) -> None:
        """Keeps combined readings; the loss is the mean over ranks, and a gradient's norm is divided like it."""
        scaled = {
            quantity.name
            for quantity in self._quantities.values()
            if quantity.input is QuantityInput.OUTPUT_GRADIENT and quantity.together == "norm" and not self._twin
        }
        for row in rows if self.strategy.divisor != 1 else ():
            row |= {key: value / self.strategy.divisor for key, value in row.items() if key[0] in scaled}
        self._table.give(steps, rows)

    def _end_with_others(self) -> None:
        """Combines the last readings; returns when every rank has ended."""
        combined = self._combined
        if combined is None or combined.all_ended:
            return
        taken, more = self._table.take(), self._told()
        while not combined.all_ended:
            told, rows = combined.exchange(*taken, more, ended=True)
            if all(told):  # the others were combining as well, not saving
                self._hear(told)
                self._keep(*rows())
                taken = [], []

    def _see_strategy(self, *_: Any) -> None:
        """Sees, as a forward pass begins, whether it is that of a DistributedDataParallel around the network."""
        if self._ranks is not None and (active := active_data_parallel(self._ranks.size)) is not None:
            self.strategy = active
            self._passes.divisor = active.divisor

    def _refuse_impossible(self) -> None:
        """Raises if quantities, or a compiled model's eager twin, lack a batch, or if nothing is trainable."""
        if self._network and self._fixed is None:
            needing = " and ".join(quantity.name for quantity in self._network)
            raise KymographError(f"{needing} need loss= and batch=, where loss(model, batch) returns a scalar tensor")
        if self._fixed is not None and not self._fixed.parameters:
            raise KymographError("the model has no trainable parameters to differentiate the loss by")
        if self._twin and self._fixed is None:
            raise KymographError(
                "the model is compiled, so no hook runs inside it: give loss= and batch= to measure its eager twin on "
                "that batch, or choose quantities of the weights, e.g. level=['weight_norm', 'update_norm']"
            )

    def _add_hooks(self) -> None:
        if not self._twin:
            self._handles = [hook.register(module) for module, hook in self._hooks if hook.name not in self._unseen]
        self._handles += self._points.attach(watch_updates=not self._layers_known)
        if self._ranks is not None and self.strategy.name == "none":
            self._handles.append(self._model.register_forward_pre_hook(self._see_strategy))

    def _remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _note_points(self, step: int) -> None:
        """Notes why gradients of this measured step are missing."""
        points, notes = self._points, self._session.notes
        if points.found_scaler:
            self._scaled |= set(range(self._unknown_since, self._table.measured + 1))
            points.found_scaler = False
            notes["scaler"] = (
                f"{self._read_at(*_UNSCALED)} is not measured up to step {step}: a GradScaler multiplied the "
                "gradients, and the probe was not given it; add scaler=scaler"
            )
        if self._weights.reads_gradients and "applied" not in notes and (why := points.not_applied):
            applied = self._read_at(QuantityInput.WEIGHT_GRADIENT)
            notes["applied"] = f"{applied} is not measured at step {step} and any other like it: {why}"
        if points.updated and not points.backward_ended and self._weights.reads_raw:
            raw = self._read_at(QuantityInput.RAW_WEIGHT_GRADIENT)
            notes.setdefault("backward", f"{raw} is not measured: no backward pass ended inside the measured step")

    def _read_at(self, *inputs: QuantityInput) -> str:
        """Returns the names of the quantities that are read there, or computed from such."""
        quantities = [self._quantities[name] for name in self.names]
        return ", ".join(
            one.name
            for one in quantities
            if one.input in inputs or any(self._quantities[source].input in inputs for source in one.sources)
        )

    def _stop_waiting(self) -> None:
        for handle in self._waiting:
            handle.remove()
        self._waiting = []

    def _after_unmeasured_update(self, *_: Any) -> None:
        self.say_unused()  # the hook stays: torch iterates over an optimizer's hooks while it calls them

    def _say_new_notes(self) -> None:
        notes = list(self._session.notes.values())
        new, self._said = notes[self._said :], len(notes)
        for note in new[:_MOST_NOTES]:
            self.say(note)
        if len(new) > _MOST_NOTES:
            self.say(f"{len(new) - _MOST_NOTES} more such notes are in probe.notes, and in the record of a run")

    def _see_which_layers_are_compiled(self) -> None:
        """Finds what was compiled after the probe was made: hooks there read nothing and change what is compiled."""
        compiled = compiled_modules(self._model)
        self._unseen = {hook.name for module, hook in self._hooks if module in compiled}
        if not self._unseen:
            return
        names = self._named([hook.name for _, hook in self._hooks if hook.name in self._unseen])
        if self._fixed is not None:
            self._twin = True
            self._session.notes[_TWIN] = f"{_ON_TWIN}, because no hook runs in compiled modules: {names}"
        else:
            self._session.notes[_TWIN] = (
                f"the outputs of {names} are not measured, because no hook runs in compiled modules; give loss= and "
                "batch= to measure the model's eager twin"
            )

    def _see_which_layers_ran(self, step: int, row: Row) -> None:
        """Notes which layers did not run in the first step that trains; if none did, reads the eager twin."""
        layers = [hook for module, hook in self._hooks if can_be_called(module) and hook.name not in self._unseen]
        silent = [hook.name for hook in layers if not hook.ran(self._twin_row if self._twin else row)]
        none_ran = len(silent) == len(layers)
        if none_ran and self._optimizers and not self._points.updated:
            return  # nothing is trained in this step
        self._layers_known, twin_row, self._twin_row = True, self._twin_row, {}
        if not self._twin and not none_ran and self._fixed is not None:
            self._session.notes.pop(_TWIN, None)  # it was tried in vain
        if none_ran and silent and twin_row and not self._twin:
            row.update(twin_row)
            self._twin = True
            self._remove_hooks()  # a compiled model would be compiled twice, with hooks and without
            self._session.notes["layers"] = (
                f"{_ON_TWIN}, because no layer was seen to run in step {step}, as in a compiled model"
            )
        elif none_ran and silent:
            self._session.notes["layers"] = (
                f"outputs and their gradients are not measured: no layer was seen to run in step {step}; watch the "
                "model that the loop calls, and if it is compiled, where no hook runs, give loss= and batch= for its "
                "eager twin"
            )
        elif silent:
            self._session.notes["layers"] = (
                f"the outputs of {self._named(silent)} are not measured: they did not run in step {step}, or only "
                "under no_grad or compiled"
            )

    def _named(self, layers: Sequence[str]) -> str:
        """Returns the names of layers, those that differ only in an index together, or of the first few."""
        found = families([hook.name for _, hook in self._hooks], layers)
        shown = ", ".join(counted(family) for family in found[:_MOST_NAMES])
        more = sum(len(family.sites) for family in found[_MOST_NAMES:])
        return f"{shown} and {more} more" if more else shown

    def _at_network(self, row: Row) -> None:
        """Reads the quantities that are computed on the fixed batch, before the step."""
        fixed = self._fixed
        if fixed is None or (self.strategy.shards_weights and self._ranks is not None):
            return
        fixed.step = self._table.measured
        if self._twin or not self._layers_known:  # until then its readings are only kept
            self._twin_row = self._read_twin(fixed)
        if self._twin:
            row.update(self._twin_row)
        self._session.row = None  # the layers' hooks ignore the other passes on the fixed batch
        for quantity in self._network if self._ranks is None or self._ranks.rank == 0 else ():
            if quantity.name not in self._session.notes:
                value = self._try_measuring(quantity.name, quantity.function, fixed)
                if value is not None:
                    row[quantity.name, NETWORK] = value
        self._session.row = row

    def _read_twin(self, fixed: FixedBatch) -> Row:
        """Returns the readings at all layers in one eager pass on the fixed batch."""
        self._session.row = {}
        handles = [hook.register(module) for module, hook in self._hooks]
        self._passes.trains = False  # nothing scales this loss
        try:
            self._try_measuring(_TWIN, fixed.walk)
        finally:
            self._passes.trains = True
            for handle in handles:
                handle.remove()
        return self._session.close()

    def _try_measuring(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the function's result; None, with a note, if it fails."""
        try:
            return function(*arguments)
        except KymographError:
            raise
        except Exception as error:  # measuring never stops training
            self._session.notes[name] = f"{name} is not measured: {first_line(error)}"
            return None

    def _all_series(self) -> dict[str, RunSeries]:
        """Returns each quantity that was asked for; one that no layer has is an array without columns."""
        columns = self._table.columns()
        every_series: dict[str, RunSeries] = {}
        for name, quantity in self._quantities.items():
            every_series[name] = (
                derived(quantity, every_series) if quantity.sources else self._series_of(quantity, columns)
            )
        return {name: every_series[name] for name in self.names}

    def _series_of(self, quantity: LoadedQuantity, columns: Mapping[Key, Column]) -> RunSeries:
        step = np.array(self._table.steps, dtype=np.int64)
        nothing = np.full(len(step), np.nan), np.zeros(len(step), dtype=bool)
        if quantity.input is QuantityInput.NETWORK:
            return RunSeries(step, columns.get((quantity.name, NETWORK), nothing)[0])
        if quantity.input in _AT_WEIGHTS:
            parts = self._weights.sites(quantity)
        else:
            read = [site for name, site in columns if name == quantity.name]
            parts = {site: [site] for _, hook in self._hooks for site in hook.sites(quantity.name, read)}
        values = [
            combine_columns([columns.get((quantity.name, name), nothing) for name in names], quantity.together)
            for names in parts.values()
        ]
        value = np.stack(values, axis=-1) if values else np.empty((len(step), 0))
        if quantity.input in _UNSCALED and not (self._twin and quantity.input in _AT_LAYERS):
            value[sorted(self._scaled)] = np.nan
        return RunSeries(step, value, tuple(parts))


def _not_a_number(*_: Any) -> float:
    return math.nan


def _say_nothing(note: str) -> None:
    """Leaves the note to rank 0, which has it as well."""


def _print_note(note: str) -> None:
    print(f"note: {note}", file=sys.stderr)
