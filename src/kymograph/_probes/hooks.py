"""Hooks that read layers' outputs and the gradients at them, attached for the measured steps only.

A forward hook reads the output, and a hook on that tensor (or on the graph node that made it, which is the same) reads
its gradient. Module backward hooks are never used: they break on in-place operations and do not see dictionaries.
Everything is reduced inside the hook, because the next operation may overwrite the tensor. A tensor hook belongs to the
value that the tensor had when it was registered, so an in-place activation after a layer does not change which gradient
is read.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kymograph._errors import first_line
from kymograph._probes.distributed import fingerprint
from kymograph._probes.layers import ProbedLayer, named_tensors, units_last
from kymograph._probes.points import BackwardPasses
from kymograph._probes.quantities import LoadedQuantity, QuantityInput
from kymograph._probes.readings import Key, Reading, Row, combine_micro_batches

Reduction = Callable[[Tensor], Tensor | float]
Reductions = list[tuple[Key, Reduction]]
SiteReader = tuple[Callable[[Tensor, Row], None], Reductions, Reductions]  # reader; of the output and its gradient
_strided_layout = torch.strided
_is_grad_enabled, _is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
_in_backward: Callable[[], int] = torch._C._current_graph_task_id  # -1 outside a backward pass
_transformed: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack  # None outside torch.func


class Session:
    """The readings of the step being measured, and notes on layers that cannot be measured."""

    def __init__(self, passes: BackwardPasses, quantities: Sequence[LoadedQuantity]) -> None:
        self.row: Row | None = None  # None: this step is not measured
        self.passes = passes
        self.several: dict[Key, list[Reading]] = {}
        self._first_in: dict[Key, int] = {}  # the micro-batch of the reading in the row, if it is not the first
        self._quantities = {quantity.name: quantity for quantity in quantities}
        self._by_unit = {quantity.name for quantity in quantities if quantity.across == "union"}
        self._tensors: list[tuple[OrderedDict[Any, Any], tuple[str, int]]] = []  # tensors' hooks, and the keys of ours
        self.notes: dict[str, str] = {}
        self.shared = False  # whether readings are combined with those of other ranks
        self.failed: set[str] = set()  # sites that were given up, because measuring them failed
        self.fingerprints: dict[str, str] | None = None  # of the outputs in this step, if they are wanted

    def put(self, key: Key, value: Tensor | float) -> None:
        """Adds a reading; several under one key are kept until the step ends, and then combined."""
        row, number = self.row, self.passes.micro_batch
        if row is None:
            return
        if key not in row:
            row[key] = value
            self._first_in[key] = number
        else:
            self.several.setdefault(key, [(self._first_in.get(key, 0), row[key])]).append((number, value))

    def close(self) -> Row:
        """Ends the step: removes the hooks on its tensors and returns its readings, one per key."""
        row = self.row or {}
        for key, value in row.items() if self._by_unit else ():
            if key[0] in self._by_unit and isinstance(value, Tensor) and value.dim() and key not in self.several:
                row[key] = value if self.shared else torch.count_nonzero(value)
        for key, readings in self.several.items():
            quantity = self._quantities[key[0]]
            try:
                if isinstance(readings[0][1], Tensor) and readings[0][1].dim() == 2:
                    raise ValueError("rows of a layer that is called several times in a step are not gathered")
                row[key] = combine_micro_batches(readings, quantity.together, quantity.across, self.shared)
            except ValueError as error:
                row[key] = math.nan
                self.notes.setdefault(quantity.name, f"{quantity.name} is not measured: {error}")
        self.abandon()
        return row

    def abandon(self) -> None:
        """Drops the readings of a step and the hooks on its tensors."""
        for hooks, name in self._tensors:
            hooks.pop(name, None)
        self.row, self.several, self._first_in, self._tensors = None, {}, {}, []

    def hook(self, output: Tensor, on_gradient: Callable[[Tensor], None]) -> None:
        """Registers a hook for the gradient at ``output`` until the step ends.

        Does what ``output.register_hook`` does, without the handle, which costs more than everything else.
        """
        hooks: Any = output._backward_hooks
        if hooks is None:
            hooks = output._backward_hooks = OrderedDict()
            if (node := output.grad_fn) is not None:
                node._register_hook_dict(output)
        name = ("kymograph", len(self._tensors))
        hooks[name] = on_gradient
        self._tensors.append((hooks, name))


class LayerHook:
    """The forward hook of one layer."""

    def __init__(self, layer: ProbedLayer, quantities: Sequence[LoadedQuantity], session: Session) -> None:
        self.name, self.session = layer.name, session
        kinds: dict[QuantityInput | None, list[LoadedQuantity]] = {}
        for quantity in quantities:
            if not quantity.layers or any(kind.__name__ in quantity.layers for kind in type(layer.module).__mro__):
                kinds.setdefault(quantity.input, []).append(quantity)
        self._outputs, self._gradients = (
            [(quantity.name, _reduction(quantity, layer.module, session.passes)) for quantity in kinds.get(kind, ())]
            for kind in (QuantityInput.OUTPUT, QuantityInput.OUTPUT_GRADIENT)
        )
        is_attention = isinstance(layer.module, nn.MultiheadAttention)
        self._attention = kinds.get(QuantityInput.ATTENTION, []) if is_attention else []
        self._seen: list[Row | None] = [None]  # the row of the layer's last call
        self._plain = self._at(layer.name)
        self._sites = {"": self._plain}
        self._on_output = self._reader()

    @property
    def needed(self) -> bool:
        """Whether anything is read at this layer."""
        return bool(self._outputs or self._gradients or self._attention)

    def sites(self, quantity: str, read: Sequence[str]) -> list[str]:
        """Returns the sites of this layer at which ``quantity`` is read, given those ``read`` so far."""
        named = [name for name, _ in (*self._outputs, *self._gradients)]
        named += [attention.name for attention in self._attention]
        if quantity not in named:
            return []
        several = [self.name + path for path in self._sites if path and self.name + path in read]
        return [self.name, *several] if self.name in read or not several else several

    def ran(self, row: Row) -> bool:
        """Returns whether the layer ran in the step whose readings are ``row``, with gradients enabled."""
        read = (*self._outputs, *self._gradients)  # a re-entrant checkpoint runs in the backward pass only
        return self._seen[0] is row or any((name, self.name + path) in row for path in self._sites for name, _ in read)

    def register(self, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
        """Attaches the hook to ``module``; at an attention it also receives the inputs."""
        if self._attention:
            # before fully_shard, which takes the weights away as the forward pass ends
            return module.register_forward_hook(self.with_inputs, with_kwargs=True, prepend=True)
        return module.register_forward_hook(self._on_output)

    def state(self) -> dict[str, Any]:
        """Returns the parts of the output seen so far, and what is no longer read because it failed."""
        return {
            "paths": list(self._sites),
            "failed": [path for path, (_, outputs, _) in self._sites.items() if self._outputs and not outputs],
            "failed gradients": [
                path for path, (_, _, gradients) in self._sites.items() if self._gradients and not gradients
            ],
            "attention": bool(self._attention),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        for path in state["paths"]:
            _, outputs, gradients = self._sites.setdefault(path, self._at(self.name + path) if path else self._plain)
            if path in state["failed"]:
                outputs.clear()
            if path in state["failed gradients"]:
                gradients.clear()
        if not state["attention"]:
            self._attention = []

    def _reader(self) -> Callable[[nn.Module, Any, Any], None]:
        """Returns the hook itself, with everything it needs in its closure, because it runs with cold caches."""
        session, (read, _, _), parts, seen = self.session, self._plain, self._read_parts, self._seen
        passes = session.passes

        def on_output(module: nn.Module, inputs: Any, output: Any) -> None:
            row = session.row
            if row is None or _is_compiling():
                return
            if passes.accumulated and _in_backward() == -1:
                passes.begin_micro_batch()
            if not _is_grad_enabled():
                return  # evaluation without gradients is not part of the step
            if _in_backward() == -1:
                seen[0] = row
            elif seen[0] is row:
                return  # recomputed by activation checkpointing; if reentrant, the first pass had no gradients
            if _transformed() is not None:
                self._note("it is called inside a torch.func transform")
            elif type(output) is Tensor:
                read(output, row)
            else:
                parts(module, output, row)

        return on_output

    def _read_parts(self, module: nn.Module, output: Any, row: Row) -> None:
        tensors = list(named_tensors(output))
        if isinstance(module, nn.MultiheadAttention):
            tensors = tensors[:1]
        if not tensors and output is not None and not isinstance(output, Tensor | dict | list | tuple):
            self._note(f"it returns a {type(output).__name__}, not a tensor, dict, list, tuple or dataclass")
        for path, tensor in tensors:
            path = path if len(tensors) > 1 else ""
            if path not in self._sites:
                self._sites[path] = self._at(self.name + path)
            self._sites[path][0](tensor, row)

    def with_inputs(self, module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
        """Reads the output of one call of an attention, and its attention weights."""
        row = self.session.row
        first = row is not None and (_in_backward() == -1 or self._seen[0] is not row)  # as `_reader` decides
        self._on_output(module, inputs, output)
        if not first or not _is_grad_enabled() or _is_compiling() or not isinstance(module, nn.MultiheadAttention):
            return
        try:
            weights = attention_weights(module, inputs, keywords)
            for quantity in self._attention:
                self.session.put((quantity.name, self.name), quantity.function(weights))
        except Exception as error:  # measuring never stops training
            self._attention = []
            self._note(f"its attention weights cannot be computed ({first_line(error)})")

    def _at(self, site: str) -> SiteReader:
        """Returns the reader of the output at ``site``, with the reductions of that output and of its gradient."""
        outputs = [((name, site), reduce) for name, reduce in self._outputs]
        gradients = [((name, site), reduce) for name, reduce in self._gradients]
        session, passes, note = self.session, self.session.passes, self._note

        def on_gradient(gradient: Tensor) -> None:
            row = session.row
            if row is None:
                return
            passes.accumulated |= passes.at_outputs
            try:
                value = gradient.detach() if gradient.requires_grad else gradient  # under create_graph
                if passes.scaler is not None:
                    value = passes.unscaled(value)
                for key, reduce in gradients:
                    if passes.micro_batch or key in row:
                        session.put(key, reduce(value))
                    else:
                        row[key] = reduce(value)
            except Exception as error:  # measuring never stops training
                gradients.clear()
                session.failed.add(site)
                session.notes.setdefault(site, f"the gradient at {site} is not measured: {first_line(error)}")

        def read(output: Tensor, row: Row) -> None:
            try:
                value = output.detach()
                if value.layout is not _strided_layout or type(value) is not Tensor or value.is_meta:
                    value = _strided(value)
                for key, reduce in outputs:
                    if passes.micro_batch or key in row:
                        session.put(key, reduce(value))
                    else:
                        row[key] = reduce(value)
                if (gradients or passes.at_outputs) and output.requires_grad:
                    session.hook(output, on_gradient)
                if session.fingerprints is not None and site not in session.fingerprints:
                    session.fingerprints[site] = fingerprint(value)
            except Exception as error:  # measuring never stops training
                outputs.clear()
                session.failed.add(site)
                note(first_line(error))

        return read, outputs, gradients

    def _note(self, reason: str) -> None:
        self.session.notes.setdefault(self.name, f"{self.name} is not measured: {reason}")


_ATTENTION_ARGUMENTS = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal",
)  # fmt: skip


def attention_weights(module: nn.MultiheadAttention, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    """Recomputes the attention weights of one call, (batch, heads, queries, keys).

    Without dropout, so that no random number is drawn; without gradients; and without autocast's cache, because
    training would use a weight that was cast and cached without gradients.
    """
    arguments = {**dict(zip(_ATTENTION_ARGUMENTS, inputs, strict=False)), **keywords}
    arguments |= {"need_weights": True, "average_attn_weights": False}
    kind = arguments["query"].device.type
    mode = module.training
    module.training = False
    try:
        uncached = torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), False)
        with torch.no_grad(), uncached:
            weights = module.forward(**arguments)[1]
    finally:
        module.training = mode
    if weights is None:
        raise TypeError("it returns none")
    return weights if weights.dim() == 4 else weights[None]


def _reduction(quantity: LoadedQuantity, module: nn.Module, passes: BackwardPasses) -> Reduction:
    """Returns the quantity as a function of the output alone."""
    function: Callable[..., Tensor | float] = quantity.function
    if quantity.input is QuantityInput.OUTPUT_GRADIENT and quantity.together != "norm":  # a norm is divided afterwards
        read = function

        def function(gradient: Tensor) -> Tensor | float:
            return read(gradient if passes.divisor == 1 else gradient / passes.divisor)

    wants, units = quantity.wants_layer, quantity.units
    if wants and units:
        return lambda value: function(units_last(value, module), module)
    if wants:
        return lambda value: function(value, module)
    return (lambda value: function(units_last(value, module))) if units else function


def _strided(value: Tensor) -> Tensor:
    """Returns a tensor of an unusual kind as an ordinary one; raises if that is impossible."""
    if value.is_nested or value.is_meta or type(value).__name__ in ("DTensor", "FakeTensor"):
        raise TypeError("its output is nested, sharded or without data")
    return (value.to_dense() if value.layout is not torch.strided else value).as_subclass(Tensor)
