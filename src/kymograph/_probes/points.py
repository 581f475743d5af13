"""The points at which gradients are read: unscaled, as the backward pass ends; clipped, as an optimizer applies them.

A ``GradScaler`` multiplies the loss, and so every gradient of the backward pass, by a scale that differs from step to
step. What is read during the backward pass or at its end is divided by it. Weight gradients are read twice: before the
loop clips them, and as ``optimizer.step`` begins to apply them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from kymograph._errors import KymographError
from kymograph._probes.distributed import is_sharded
from kymograph._probes.quantities import LoadedQuantity, QuantityInput
from kymograph._probes.readings import Row
from kymograph._probes.weights import WeightReader

_in_backward: Callable[[], int] = torch._C._current_graph_task_id  # -1 outside a backward pass
_is_compiling = torch.compiler.is_compiling
_SCALED_STEP = torch.amp.GradScaler.step.__code__


class Scaler(Protocol):
    """What multiplies the loss, such as ``torch.amp.GradScaler``."""

    def get_scale(self) -> float:
        """Returns the scale of the next backward pass."""
        ...


class BackwardPasses:
    """The backward passes of a step: the scale of each, that of a ``GradScaler`` or 1, and which micro-batch it is of.

    A micro-batch begins with the first call of a layer after gradients have been accumulated.
    """

    def __init__(self, scaler: Scaler | None) -> None:
        if scaler is not None and not callable(getattr(scaler, "get_scale", None)):
            kind = type(scaler).__name__
            raise KymographError(f"scaler must have get_scale(), as a torch.amp.GradScaler has, and a {kind} has none")
        self.scaler = scaler
        self.trains = True  # False: the pass is one on the fixed batch
        self.divisor = 1.0  # of the gradients of all ranks' losses, added up
        self.at_outputs = False  # gradients at outputs tell where a micro-batch ends; those of weights may come later
        self.micro_batch, self.accumulated = 0, False
        self._backward, self._scale = -1, 1.0

    def begin(self) -> None:
        """Begins a step."""
        self.micro_batch, self.accumulated = 0, False

    def begin_micro_batch(self) -> None:
        """Begins another micro-batch of the step."""
        self.micro_batch, self.accumulated = self.micro_batch + 1, False

    def unscaled(self, gradient: Tensor) -> Tensor:
        """Returns a gradient of the backward pass at work divided by its scale, in float32 at least."""
        if self.scaler is None or not self.trains:
            return gradient
        if (backward := _in_backward()) != self._backward:  # asking an accelerator once per pass is enough
            self._backward, self._scale = backward, float(self.scaler.get_scale())
        if self._scale == 1.0:
            return gradient
        return gradient.to(torch.promote_types(gradient.dtype, torch.float32)) / self._scale


class GradientPoints:
    """Reads weight gradients at both points of a measured step.

    A hook on every parameter asks autograd to call back when its backward pass ends, by which time gradients have also
    been averaged over processes. The last pass before the update counts: it ends with all that was accumulated.
    """

    def __init__(
        self,
        reader: WeightReader,
        optimizers: Sequence[torch.optim.Optimizer],
        passes: BackwardPasses,
        quantities: Sequence[LoadedQuantity],
        model: nn.Module,
    ) -> None:
        self._reader, self._optimizers, self._passes, self._model = reader, optimizers, passes, model
        self._at_outputs = any(quantity.input is QuantityInput.OUTPUT_GRADIENT for quantity in quantities)
        self._counts_micro_batches = any(quantity.across for quantity in quantities)
        # fully_shard may leave out gradients until the last micro-batch
        passes.at_outputs = self._counts_micro_batches and any(map(is_sharded, model.parameters()))
        self.found_scaler = False
        self._measuring = False
        self._reset()

    def _reset(self) -> None:
        self._passes.begin()
        self._accumulated: list[nn.Parameter] = []  # since gradients were last read at the end of a backward pass
        self._awaited = -1  # the backward pass at whose end we are called
        self._not_finite: Tensor | None = None  # of a fused optimizer, which skips the step itself: above 0 if it does
        self.backward_ended = self.updated = False

    def attach(self, watch_updates: bool = False) -> list[RemovableHandle]:
        """Adds the hooks and returns their handles; ``watch_updates``: one that tells whether an optimizer steps."""
        handles: list[Any] = []
        if self._reader.reads_raw or self._counts_micro_batches:
            parameters = [parameter for parameter in self._reader.parameters if parameter.requires_grad]
            if self._counts_micro_batches and not parameters:  # the watched layers have none, or only frozen ones
                parameters = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
            handles += [_ParameterHook(parameter, self._on_accumulated) for parameter in parameters]
        may_be_scaled = self._at_outputs and self._passes.scaler is None
        if self._reader.reads_gradients or self._reader.reads_raw or may_be_scaled or watch_updates:
            if self._optimizers:
                handles += [optimizer.register_step_pre_hook(self._before_step) for optimizer in self._optimizers]
            else:
                handles.append(register_optimizer_step_pre_hook(self._before_step))
        return handles

    def begin(self) -> None:
        """Begins a measured step."""
        self._reset()
        self._measuring = True

    def abandon(self) -> None:
        """Drops what was read of the step."""
        self._measuring = False
        self._accumulated = []
        self._reader.drop_gradients()

    def end(self, row: Row) -> None:
        """Ends the step and adds its readings to ``row``.

        Without any optimizer at work, in a loop that updates its weights itself, gradients are read now.
        """
        if not self._optimizers and not self.updated and self._passes.scaler is None:
            self._reader.copy_gradients(None)
        self._reader.measure_gradients(row)
        self._measuring = False

    @property
    def not_applied(self) -> str:
        """Why no gradient was applied in the step; empty if one was, or if that cannot be known."""
        if not self.updated and (self._optimizers or self._passes.scaler is not None):
            may_skip = "" if self._passes.scaler is None else "; a GradScaler skips it if a gradient is not finite"
            return f"no optimizer made a step{may_skip}"
        if self._not_finite is not None and float(self._not_finite) > 0:
            return "the GradScaler skipped it, because a gradient is not finite"
        return ""

    def _on_accumulated(self, parameter: Tensor) -> None:
        self._accumulated.append(parameter)  # type: ignore[arg-type]
        if (backward := _in_backward()) != self._awaited and self._measuring and not _is_compiling():
            self._awaited = backward
            self._passes.accumulated = True
            if self._reader.reads_raw:
                _at_end_of_backward(self._requeue)

    def _requeue(self) -> None:
        """Goes behind the others that wait for the same end: DistributedDataParallel averages gradients in one."""
        _at_end_of_backward(self._on_backward_end)

    def _on_backward_end(self) -> None:
        if not self._measuring:
            return
        self._awaited = -1
        parameters: Sequence[nn.Parameter] = self._accumulated if self.backward_ended else self._reader.parameters
        self._accumulated = []
        self.backward_ended = True
        with torch.no_grad():
            self._reader.read_raw(parameters, self._passes.unscaled if self._passes.scaler is not None else None)

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Reads the gradients that ``optimizer`` is about to apply, or has its closure read them as it returns."""
        if not self._measuring or _is_compiling():
            return None
        closure = keywords.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            self._apply(optimizer)
            return None

        def closure_and_reading() -> Any:
            loss = closure()
            if self._measuring:
                self._apply(optimizer)
            return loss

        if "closure" in keywords:
            return args, {**keywords, "closure": closure_and_reading}
        return (args[0], closure_and_reading, *args[2:]), keywords

    def _apply(self, optimizer: torch.optim.Optimizer) -> None:
        if self._passes.scaler is None and (scaler := _calling_scaler()) is not None:
            self._passes.scaler, self.found_scaler = scaler, True
        watched = self._reader.parameters
        updated = None
        if len(self._optimizers) != 1:
            updated = _parameters_of(optimizer)
            if not self._optimizers and not any(id(parameter) in updated for parameter in watched):
                return  # it trains another network
        if len(self._optimizers) > 1 and updated is not None:
            known = set[int]().union(*map(_parameters_of, self._optimizers))
            updated |= {id(parameter) for parameter in watched if id(parameter) not in known}
        self.updated = True
        self._not_finite = getattr(optimizer, "found_inf", None)
        with torch.no_grad():
            self._reader.copy_gradients(updated, _fused_scale(optimizer))


class _ParameterHook:
    """A hook that runs when a gradient has been added to a parameter's; its removal leaves no trace."""

    def __init__(self, parameter: nn.Parameter, on_accumulated: Callable[[Tensor], None]) -> None:
        self._parameter = parameter
        self._handle = parameter.register_post_accumulate_grad_hook(on_accumulated)

    def remove(self) -> None:
        """Removes the hook."""
        self._handle.remove()
        if not self._parameter._post_accumulate_grad_hooks:
            self._parameter._post_accumulate_grad_hooks = None  # type: ignore[assignment]


def _parameters_of(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _at_end_of_backward(callback: Callable[[], None]) -> None:
    """Has autograd call ``callback`` when the backward pass at work has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def _fused_scale(optimizer: torch.optim.Optimizer) -> Tensor | None:
    """Returns what ``optimizer`` divides the gradients by inside its step: a fused one does so for its GradScaler.

    NaN if it is about to skip the step, because a gradient is not finite; None if it uses them as they are.
    """
    scale: Tensor | None = getattr(optimizer, "grad_scale", None)
    not_finite: Tensor | None = getattr(optimizer, "found_inf", None)
    if not_finite is not None:
        scale = torch.ones_like(not_finite) if scale is None else scale
        scale = torch.where(not_finite.to(scale.device) > 0, torch.nan, scale)
    return scale


def _calling_scaler() -> Scaler | None:
    """Returns the GradScaler whose ``step`` has called the optimizer; None if there is none, or it does nothing."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _SCALED_STEP:
            scaler: torch.amp.GradScaler = frame.f_locals["self"]
            return scaler if scaler.get_scale() != 1.0 else None
        frame = frame.f_back  # type: ignore[assignment]
    return None
