"""A probe on any module in any training loop: what is read, at which layers, at which steps."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from kymograph.errors import KymographError
from kymograph.probes.curvature import FixedBatch, Loss
from kymograph.probes.hooks import LayerHook, Session
from kymograph.probes.layers import ProbedLayer, find_layers, is_compiled, unwrapped
from kymograph.probes.quantities import LoadedQuantity, QuantityInput, chosen, load
from kymograph.probes.readings import (
    Key,
    MeasuredStep,
    QuantityColumns,
    ReadingTable,
    Row,
    combine_columns,
    derived,
    measured_steps,
)
from kymograph.probes.weights import WeightReader, optimizers_in
from kymograph.runs.record import RunSeries

_REMEMBERED = 9


class Schedule:
    """Decides which steps are measured.

    Without a budget these are the multiples of ``every``. With one, e.g. 0.05, the interval is at least ``every`` and
    long enough that measuring adds at most that share to the training time: the median extra time of a measured step,
    spread over the interval, stays below it. Times are wall-clock times of whole steps, and do not include work that an
    accelerator does later.
    """

    def __init__(self, every: int, budget: float | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise KymographError(f"every must be a whole number of at least 1, not {every!r}")
        if budget is not None and not 0 < budget < math.inf:
            raise KymographError(f"budget must be a positive share of the training time, e.g. 0.05, not {budget!r}")
        self.every, self.budget = every, budget
        # The first measured step also pays for one-time set-up, and is compared with steps that are not measured.
        self.interval = every if budget is None else max(every, 2)
        self._clock = clock
        self._next: int | None = None
        self._measured: deque[float] = deque(maxlen=_REMEMBERED)
        self._others: deque[float] = deque(maxlen=_REMEMBERED)
        self._first = True
        self._started = 0.0

    @property
    def constant(self) -> bool:
        """Whether every step is measured."""
        return self.every == 1 and self.budget is None

    def due(self, step: int) -> bool:
        """Returns whether ``step`` is to be measured."""
        if self.budget is None:
            return step % self.every == 0
        return self._next is None or step >= self._next

    def begin(self) -> None:
        """Records the start of a step."""
        if self.budget is not None:
            self._started = self._clock()

    def end(self, step: int, measured: bool) -> None:
        """Records the end of ``step``, and sets the interval."""
        if self.budget is None:
            return
        seconds = self._clock() - self._started
        if not measured:
            self._others.append(seconds)
        elif self._first:
            self._first = False
        else:
            self._measured.append(seconds)
        if measured:
            self.interval = self._interval()
            self._next = step + self.interval

    def state(self) -> dict[str, Any]:
        """Returns when the next measured step is due, and the step times behind it."""
        return {
            "interval": self.interval,
            "next": self._next,
            "measured": list(self._measured),
            "others": list(self._others),
            "first": self._first,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self.interval, self._next, self._first = state["interval"], state["next"], state["first"]
        self._measured.extend(state["measured"])
        self._others.extend(state["others"])

    def _interval(self) -> int:
        if self.budget is None or not self._measured or not self._others:
            return self.interval
        usual = statistics.median(self._others)
        extra = statistics.median(self._measured) - usual
        if usual <= 0:
            return self.interval
        # At least 2: there must be steps that are not measured, to compare with.
        return max(self.every, 2, math.ceil(extra / (self.budget * usual)))


def refuse_impossible(quantities: Sequence[LoadedQuantity], fixed: FixedBatch | None, twin: bool) -> None:
    """Raises if quantities, or a compiled model's eager twin, need a batch and have none, or nothing is trainable."""
    network = [one.name for one in quantities if one.input is QuantityInput.NETWORK]
    if network and fixed is None:
        needing = " and ".join(network)
        raise KymographError(f"{needing} need loss= and batch=, where loss(model, batch) returns a scalar tensor")
    if fixed is not None and not fixed.parameters:
        raise KymographError("the model has no trainable parameters to differentiate the loss by")
    if twin and fixed is None:
        raise KymographError(
            "the model is compiled, so no hook runs inside it: give loss= and batch= to measure its eager twin on "
            "that batch, or choose quantities of the weights, e.g. level=['weight_norm', 'update_norm']"
        )


def unmeasurable(quantities: Sequence[LoadedQuantity], layers: Sequence[ProbedLayer]) -> dict[str, str]:
    """Returns a note for each quantity that no layer of the network has."""
    if any(isinstance(layer.module, nn.MultiheadAttention) for layer in layers):
        return {}
    return {
        one.name: f"{one.name} is not measured: no nn.MultiheadAttention is among the layers, and the weights inside "
        "scaled_dot_product_attention cannot be seen"
        for one in quantities
        if one.input is QuantityInput.ATTENTION
    }


NETWORK = "network"
NO_STEP = "nothing was measured, because no step was begun: use `with probe.step(step):`, or loop over `run.steps(...)`"
_AT_LAYERS = (QuantityInput.OUTPUT, QuantityInput.OUTPUT_GRADIENT, QuantityInput.ATTENTION)
_AT_WEIGHTS = (QuantityInput.WEIGHT, QuantityInput.UPDATE, QuantityInput.WEIGHT_GRADIENT)


class ModuleProbe:
    """Reads quantities of a network's layers while an ordinary loop trains it; the weights come out bit-identical.

        probe = ModuleProbe(model, optimizer, level="standard", every=10)
        with probe:
            for step, (x, y) in enumerate(batches):
                with probe.step(step):
                    optimizer.zero_grad()
                    loss_of(model(x), y).backward()
                    optimizer.step()
        probe.rows()[-1].values["output_norm"]

    Args:
        model: any module; it may be wrapped, partly frozen, on several devices, under autocast or checkpointed.
        optimizer: the optimizer or optimizers, at whose step weight gradients are read; without one they are read when
            the step ends.
        level: ``light``, ``standard`` or ``deep``, or names of quantities.
        every: the interval between measured steps. The others cost next to nothing: no hook is attached.
        layers: names or patterns such as ``blocks.*.mlp``; None: every module without children, every attention and
            every module with parameters of its own.
        budget: the share of training time that measuring may add, e.g. 0.05; ``every`` is then the shortest interval.
        loss: ``loss(model, batch)`` returns a tensor with one entry; for the quantities of the whole network.
        batch: the fixed batch that these are computed on.

    If a layer is called several times in a step (a shared module, several micro-batches), the readings of all its calls
    are combined as the quantity's ``together`` says. Calls under ``no_grad`` are not part of the step. What cannot be
    measured is NaN, and `notes` says why. A compiled model's outputs are read on its eager twin: the same weights, in
    evaluation mode, on ``batch``. Weights, updates and weight gradients are still those of the training step.
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
    ) -> None:
        self.names = chosen(level)
        self._quantities = load(self.names)
        self.schedule = Schedule(every, budget)
        self._layers = find_layers(model, layers)
        self._model = unwrapped(model)
        self._optimizers = optimizers_in(optimizer)
        self._session = Session()
        self._table = ReadingTable()
        at = list(self._quantities.values())
        self._together = {one.name: one.together for one in at}
        self._network = [one for one in at if one.input is QuantityInput.NETWORK]
        hooks = [(layer, LayerHook(layer, at, self._session)) for layer in self._layers]
        self._hooks = [(layer.module, hook) for layer, hook in hooks if hook.needed]
        self._weights = WeightReader(self._layers, at)
        self._handles: list[RemovableHandle] = []
        self._fixed = None if loss is None or batch is None else FixedBatch(self._model, loss, batch)
        self._twin = is_compiled(model) and any(one.input in _AT_LAYERS for one in at)
        refuse_impossible(at, self._fixed, self._twin)
        self._session.notes |= unmeasurable(at, self._layers)
        self._attached = self._was_attached = self._began = False
        self._step: int | None = None
        self._measuring = False

    def __enter__(self) -> ModuleProbe:
        self.attach()
        return self

    def __exit__(self, *reason: object) -> None:
        self.detach()

    def attach(self) -> None:
        """Enables `step`; hooks are attached for the measured steps only."""
        self._attached = self._was_attached = True

    def detach(self) -> None:
        """Removes every hook and frees the copies of the weights; readings are kept."""
        self._session.abandon()
        self._remove_hooks()
        self._weights.release()
        self._table.flush()
        self._attached = self._measuring = False

    def step(self, step: int) -> ModuleStep:
        """Returns a context for one training step: forward pass, backward pass and update inside."""
        return ModuleStep(self, step)

    @property
    def measuring(self) -> bool:
        """Whether the current step is measured."""
        return self._measuring

    def begin(self, step: int) -> None:
        """Begins a step, as entering `step` does."""
        self._step = int(step)
        if not self._attached:
            raise KymographError("the probe is not attached; use it in a with statement, or call attach() first")
        self._began = True
        self.schedule.begin()
        self._measuring = self.schedule.due(self._step)
        if not self._measuring:
            self._remove_hooks()
            return
        row: Row = {}
        self._session.row = row
        self._at_network(row)
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
            if self._weights.reads_gradients and not self._optimizers:
                self._weights.gradients(row)
            self._weights.end(row)
            self._table.add(step, self._session.close(self._together))
            if not self.schedule.constant:
                self._remove_hooks()
        self._measuring = False
        self.schedule.end(step, measured)

    def abandon(self) -> None:
        """Drops the current step, e.g. because it failed."""
        self._session.abandon()
        self._remove_hooks()
        self._step, self._measuring = None, False

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence per layer or quantity that cannot be measured, and one if the probe was never used."""
        unused = self._was_attached and not self._began and not self._table.steps
        return (*self._session.notes.values(), *((NO_STEP,) if unused else ()))

    def state(self) -> dict[str, Any]:
        """Returns everything the probe needs to resume after a kill: tensors, arrays, numbers and strings."""
        return {
            "quantities": list(self.names),
            "readings": self._table.state(),
            "schedule": self.schedule.state(),
            "layers": [hook.state() for _, hook in self._hooks],
            "gradients": self._weights.state(),
            "fixed batch": {} if self._fixed is None else dict(self._fixed.state),
            "notes": dict(self._session.notes),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the `state` of a probe on the same network."""
        if list(state["quantities"]) != list(self.names) or len(state["layers"]) != len(self._hooks):
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

    def columns(self) -> dict[str, QuantityColumns]:
        """Returns each quantity as an array (steps, layers), NaN where it was not read; (steps,) for the network's."""
        found: dict[str, QuantityColumns] = {}
        read = self._table.columns()
        for name, quantity in self._quantities.items():
            found[name] = derived(quantity, found) if quantity.sources else self._read(quantity, read)
        return {name: found[name] for name in self.names}

    def rows(self, since: int = 0) -> list[MeasuredStep]:
        """Returns the readings step by step, from the measured step with index ``since``."""
        return measured_steps(self.columns(), NETWORK)[since:]

    def _add_hooks(self) -> None:
        if not self._twin:
            self._handles = [hook.register(module) for module, hook in self._hooks]
        if self._weights.reads_gradients:
            self._handles += [one.register_step_pre_hook(self._before_update) for one in self._optimizers]

    def _remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before_update(self, *_: Any) -> None:
        if self._session.row is not None:
            self._weights.gradients(self._session.row)

    def _at_network(self, row: Row) -> None:
        """Reads the quantities that are computed on the fixed batch, before the step."""
        fixed = self._fixed
        if fixed is None:
            return
        fixed.step = len(self._table.steps)
        if self._twin:
            handles = [hook.register(module) for module, hook in self._hooks]
            try:
                self._try_measuring("the eager twin", fixed.walk)
            finally:
                for handle in handles:
                    handle.remove()
        self._session.row = None  # the layers' hooks ignore the other passes on the fixed batch
        for quantity in self._network:
            if quantity.name not in self._session.notes:
                value = self._try_measuring(quantity.name, quantity.function, fixed)
                if value is not None:
                    row[quantity.name, NETWORK] = value
        self._session.row = row

    def _try_measuring(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the function's result; None, with a note, if it fails."""
        try:
            return function(*arguments)
        except KymographError:
            raise
        except Exception as error:  # measuring never stops training
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._session.notes[name] = f"{name} is not measured: {reason}"
            return None

    def _read(self, quantity: LoadedQuantity, read: dict[Key, tuple[np.ndarray, np.ndarray]]) -> QuantityColumns:
        step = np.array(self._table.steps, dtype=np.int64)
        nothing = np.full(len(step), np.nan), np.zeros(len(step), dtype=bool)
        if quantity.input is QuantityInput.NETWORK:
            return QuantityColumns(step, read.get((quantity.name, NETWORK), nothing)[0], None)
        if quantity.input in _AT_WEIGHTS:
            parts = self._weights.sites(quantity)
        else:
            seen = [site for name, site in read if name == quantity.name]
            parts = {site: [site] for _, hook in self._hooks for site in hook.sites(quantity.name, seen)}
        values = [
            combine_columns([read.get((quantity.name, name), nothing) for name in names], quantity.together)
            for names in parts.values()
        ]
        value = np.stack(values, axis=-1) if values else np.empty((len(step), 0))
        return QuantityColumns(step, value, tuple(parts))


class ModuleStep:
    """One training step under a probe."""

    def __init__(self, probe: ModuleProbe, step: int) -> None:
        self._probe, self._number = probe, step

    def __enter__(self) -> ModuleStep:
        self._probe.begin(self._number)
        return self

    def __exit__(self, kind: object, *reason: object) -> None:
        if kind is None:
            self._probe.end()
        else:
            self._probe.abandon()

    @property
    def measured(self) -> bool:
        """Whether this step is measured."""
        return self._probe.measuring


class Probe(ModuleProbe):
    """Reads quantities of a network's layers while an ordinary loop trains it; the weights come out bit-identical.

        with Probe(model, optimizer, level="standard", every=10) as probe:
            for step, (x, y) in enumerate(batches):
                with probe.step(step):
                    optimizer.zero_grad()
                    loss_of(model(x), y).backward()
                    optimizer.step()
        probe.series()["output_norm"].value  # (steps, layers)

    The arguments and the other methods are those of `ModuleProbe`.
    """

    def series(self) -> dict[str, RunSeries]:
        """Returns each quantity that some layer has, over the measured steps, with the layers as its sites."""
        return {
            name: RunSeries(one.step, one.value, one.sites) for name, one in self.columns().items() if one.sites != ()
        }

    def __enter__(self) -> Probe:
        self.attach()
        return self
