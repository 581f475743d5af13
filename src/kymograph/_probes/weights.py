"""Weights, their gradients and their updates, read around a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

import torch
from torch import Tensor, nn

from kymograph._errors import KymographError
from kymograph._probes.distributed import holding, is_sharded, local
from kymograph._probes.layers import ProbedLayer
from kymograph._probes.quantities import LoadedQuantity, QuantityInput
from kymograph._probes.readings import Key, Number, Row

_Torch = torch.optim.Optimizer
_AT_ONCE = 512 * 1024
"""Bytes of weights that are copied and read at once: with their copies they fit into a core's cache."""


class WeightReader:
    """Reads the weights of all layers around a step; those of a block are combined from the layers inside it.

    The parameters of a layer are copied into contiguous memory, so that one operation measures weights and bias
    together and a step allocates nothing. There is one copy of the weights, if they or their updates are read, and two
    of the gradients, if these are read: of this measured step and of the previous one.
    """

    def __init__(self, layers: Sequence[ProbedLayer], quantities: Sequence[LoadedQuantity]) -> None:
        self._weights, self._updates, self._gradients, self._raw = (
            [quantity for quantity in quantities if quantity.input is kind]
            for kind in (
                QuantityInput.WEIGHT,
                QuantityInput.UPDATE,
                QuantityInput.WEIGHT_GRADIENT,
                QuantityInput.RAW_WEIGHT_GRADIENT,
            )
        )
        self._parts = _divided([layer for layer in layers if layer.parameters])
        self._read_once = list({part.name: part for parts in self._parts.values() for part in parts}.values())
        self.parameters = list({id(one): one for layer in layers for one in layer.parameters}.values())
        self._groups: list[_Group] = []
        self._latest: dict[int, list[Number]] = {}  # by parameter, its raw readings: at the end of a backward pass
        self._applied: dict[int, list[Number]] = {}  # and those from before the update

    @property
    def reads_gradients(self) -> bool:
        """Whether weight gradients are read as they are applied."""
        return bool(self._gradients)

    @property
    def reads_raw(self) -> bool:
        """Whether weight gradients are read as the backward pass ends."""
        return bool(self._raw)

    def sites(self, quantity: LoadedQuantity) -> dict[str, list[str]]:
        """Returns, by layer, the names of the readings that its value is combined from."""
        return {
            layer: [name for part in parts for segment in _segments(part) for name in segment.names(quantity)]
            for layer, parts in self._parts.items()
            if len(parts) == 1 or _can_be_combined(quantity)
        }

    def holders(self, rank: int) -> dict[str, tuple[str, bool]]:
        """Returns, by the name of a reading, how its weights are laid out over ranks, and whether this one's count."""
        return {
            name: holding(segment.parameters[0], rank)
            for part in self._read_once
            for segment in _segments(part)
            for name in (segment.name, *segment.tensor_names)
        }

    def notes(self) -> dict[str, str]:
        """Returns, by quantity, a sentence on each that is not measured at blocks."""
        blocks = [layer for layer, parts in self._parts.items() if len(parts) > 1]
        return {
            quantity.name: f"{quantity.name} is not measured at {blocks[0]} and other modules with layers inside: its "
            "'together' is 'mean', and the value of a block is not the mean of those of its layers"
            for quantity in (*self._weights, *self._updates, *self._gradients)
            if blocks and not _can_be_combined(quantity)
        }

    def begin(self, row: Row) -> None:
        """Copies the weights before the step, and reads them."""
        if self._weights or self._updates:
            self._read(torch._foreach_copy_, self._weights, row)

    def end(self, row: Row) -> None:
        """Reads what the step subtracted from the weights."""
        if self._updates:
            self._read(torch._foreach_sub_, self._updates, row)  # into the copy: fresh memory costs more

    def _read(self, fill: Callable[..., None], quantities: Sequence[LoadedQuantity], row: Row) -> None:
        for group in self._groups or self._prepared():
            group.measure(fill, quantities, row)

    def read_raw(self, parameters: Iterable[nn.Parameter], unscaled: Callable[[Tensor], Tensor] | None) -> None:
        """Reads the current gradients of ``parameters``, in place of what was read of them before."""
        kinds: dict[tuple[torch.device, torch.dtype], dict[int, Tensor]] = {}
        for parameter in parameters:
            if (gradient := parameter.grad) is not None:
                gradient = local(gradient)
                dense = gradient if gradient.layout is torch.strided else gradient.to_dense()
                dense = dense if unscaled is None else unscaled(dense)
                kinds.setdefault((dense.device, dense.dtype), {})[id(parameter)] = dense
        for gradients in kinds.values():
            values = [quantity.function(list(gradients.values())) for quantity in self._raw]
            self._latest |= {one: list(readings) for one, *readings in zip(gradients, *values, strict=True)}

    def copy_gradients(self, updated: Collection[int] | None, scale: Tensor | None = None) -> None:
        """Copies the gradients of parameters that are about to be updated, by id (None: all), divided by ``scale``."""
        self._applied |= {one: readings for one, readings in self._latest.items() if updated is None or one in updated}
        if self._gradients:
            for group in self._prepared():
                group.copy_gradients(updated, scale)

    def measure_gradients(self, row: Row) -> None:
        """Adds the readings of all gradients of the step; a layer without any is left out."""
        readings = self._latest | self._applied
        self._latest, self._applied = {}, {}
        for group in self._prepared() if self._gradients or self._raw else ():
            if self._gradients:
                group.measure_gradients(self._gradients, row)
            for name, parameter in group.tensors():
                if (values := readings.get(id(parameter))) is not None:
                    row.update({(raw.name, name): value for raw, value in zip(self._raw, values, strict=True)})

    def drop_gradients(self) -> None:
        """Forgets what was read of a step that is dropped."""
        self._latest, self._applied = {}, {}
        for group in self._groups:
            group.drop_gradients()

    def state(self) -> list[dict[str, Any] | None]:
        """Returns the gradients of the last measured step, for comparison with the next one's."""
        return [group.gradient_state() for group in self._groups]

    def load_state(self, state: Sequence[Mapping[str, Any] | None]) -> None:
        """Restores what `state` returned."""
        if state:
            for group, saved in zip(self._prepared(), state, strict=True):
                group.load_gradients(saved)

    def release(self) -> None:
        """Frees all copies."""
        self._groups = []

    def _prepared(self) -> list[_Group]:
        """Returns the weights grouped by device and dtype, with memory for their copies."""
        if not self._groups:
            kinds: dict[tuple[torch.device, torch.dtype], list[_Segment]] = {}
            for part in self._read_once:
                for segment in _segments(part):
                    first = segment.parameters[0]
                    kinds.setdefault((first.device, first.dtype), []).append(segment)
            self._groups = [_Group(segments) for segments in kinds.values()]
        return self._groups


def _divided(layers: Sequence[ProbedLayer]) -> dict[str, list[ProbedLayer]]:
    """Returns, by layer, the disjoint layers that together have its parameters, so that none is read twice for a block.

    What no layer inside a block has to itself, such as the second layer with a shared weight, is read for the block.
    """
    whole = [layer for layer in layers if not layer.contains_layers]
    parts = {layer.name: [layer] for layer in whole}
    blocks = [layer for layer in layers if layer.contains_layers]
    for block in sorted(blocks, key=lambda block: len(block.parameters)):  # inner ones before outer ones
        missing = {id(parameter): parameter for parameter in block.parameters}
        parts[block.name] = []
        for layer in whole:
            if all(id(parameter) in missing for parameter in layer.parameters):
                parts[block.name].append(layer)
                for parameter in layer.parameters:
                    del missing[id(parameter)]
        if missing:
            rest = replace(block, parameters=tuple(missing.values()))
            whole.append(rest)
            parts[block.name].append(rest)
    return {layer.name: parts[layer.name] for layer in layers}


def _can_be_combined(quantity: LoadedQuantity) -> bool:
    """Returns whether the value of a block follows from those of the layers inside it; a mean over tensors does."""
    return not quantity.flat or quantity.together != "mean"


class _Segment:
    """Consecutive parameters of one layer that share dtype and device."""

    def __init__(self, layer: str, number: int, parameters: list[nn.Parameter]) -> None:
        self.name, self.parameters = f"{layer} {number}", parameters
        self.tensor_names = [f"{self.name} {index}" for index in range(len(parameters))]
        self.size = sum(local(parameter).numel() for parameter in parameters)

    def names(self, quantity: LoadedQuantity) -> list[str]:
        """Returns the names of a quantity's readings: one for the segment, or one per tensor."""
        return [self.name] if quantity.flat else self.tensor_names


def _segments(layer: ProbedLayer) -> list[_Segment]:
    kinds = groupby(layer.parameters, key=_kind)
    return [_Segment(layer.name, number, list(group)) for number, (_, group) in enumerate(kinds)]


def _kind(parameter: nn.Parameter) -> tuple[str, ...]:
    """Returns what parameters that are read together share: device, dtype, and how they are sharded over ranks."""
    how = str(parameter.placements) if is_sharded(parameter) else ""  # type: ignore[attr-defined]
    return str(parameter.device), str(parameter.dtype), how


class _Group:
    """The parameters of all layers that share dtype and device, and contiguous memory for a copy of them."""

    def __init__(self, segments: list[_Segment]) -> None:
        self.segments = segments
        self.parameters: list[Tensor] = [parameter for segment in segments for parameter in segment.parameters]
        self._gradients: list[_GradientCopy] = []
        _, copies, values = self._allocate(self.parameters[0].dtype)
        shaped, flat = iter(copies), iter(values)
        self._parts = []
        for together in self._read_together() if self.parameters[0].device.type == "cpu" else [segments]:
            tensors = sum(len(segment.parameters) for segment in together)
            self._parts.append(_Part(together, list(islice(shaped, tensors)), list(islice(flat, len(together)))))

    def _read_together(self) -> list[list[_Segment]]:
        """Returns the segments in groups, each small enough to stay in the cache with its copies."""
        parts: list[list[_Segment]] = []
        room = 0
        for segment in self.segments:
            size = segment.size * segment.parameters[0].element_size()
            if size > room:
                parts.append([])
                room = _AT_ONCE
            parts[-1].append(segment)
            room -= size
        return parts

    def measure(self, fill: Callable[..., None], quantities: Sequence[LoadedQuantity], row: Row) -> None:
        """Fills the copies from the weights and reads them, each layer as one vector or tensor by tensor.

        On the CPU this is done part by part, while a part is in the cache; otherwise all at once.
        """
        for part in self._parts:
            fill(part.copies, part.weights())
            for quantity in quantities:
                keys = part.keys(quantity)
                values = quantity.function(part.values if quantity.flat else part.copies)
                if len(keys) == 1 == len(values):
                    row[keys[0]] = values[0]
                else:
                    row.update(zip(keys, values, strict=True))

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yields the parameters, each with the name of its readings."""
        names = (name for segment in self.segments for name in segment.tensor_names)
        return zip(names, self.parameters, strict=True)

    def copy_gradients(self, updated: Collection[int] | None, scale: Tensor | None) -> None:
        """Copies the gradients of parameters that are about to be updated, by id (None: all), divided by ``scale``."""
        _, new = self._both_gradients()
        new.copy(self.parameters, updated, scale)

    def drop_gradients(self) -> None:
        """Forgets the gradients copied in this step."""
        for copy in self._gradients[1:]:
            copy.begin()

    def measure_gradients(self, quantities: Sequence[LoadedQuantity], row: Row) -> None:
        """Reads each layer's copied gradients as one vector, together with those of the previous measured step."""
        old, new = self._both_gradients()
        self._gradients = [new, old]
        new.close(self.segments)
        old.begin()
        here = [index for index, present in enumerate(new.present) if present]
        gradients = [new.values[index] for index in here]
        previous = [old.values[index] if old.present[index] else None for index in here]
        for quantity in quantities:
            for index, value in zip(here, quantity.function(gradients, previous), strict=True):
                if value is not None:
                    row[quantity.name, self.segments[index].name] = value

    def gradient_state(self) -> dict[str, Any] | None:
        """Returns the gradients of the last measured step; None if none were read."""
        if not self._gradients:
            return None
        last = self._gradients[0]
        return {"present": list(last.present), "values": last.memory}

    def load_gradients(self, state: Mapping[str, Any] | None) -> None:
        """Restores what `gradient_state` returned."""
        if state is not None:
            last, _ = self._both_gradients()
            last.memory.copy_(state["values"])
            last.present = [bool(present) for present in state["present"]]

    def _both_gradients(self) -> list[_GradientCopy]:
        """Returns the gradients of the last measured step, and memory for those of this one."""
        if not self._gradients:
            first = self.parameters[0]
            # Inner products on the CPU handle precision themselves; mps has no float64.
            wide = torch.promote_types(first.dtype, torch.float32) if first.device.type in ("cpu", "mps") else (
                torch.promote_types(first.dtype, torch.float64)
            )  # fmt: skip
            self._gradients = [_GradientCopy(*self._allocate(wide)) for _ in range(2)]
        return self._gradients

    def _allocate(self, dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns new memory (entries,), its views with the shapes of the parameters, and its view for each layer."""
        sizes = [segment.size for segment in self.segments]
        memory = torch.empty(sum(sizes), dtype=dtype, device=self.parameters[0].device)
        here = [local(parameter) for parameter in self.parameters]
        pieces = memory.split_with_sizes([parameter.numel() for parameter in here])
        shaped = [piece.view(parameter.shape) for piece, parameter in zip(pieces, here, strict=True)]
        return memory, shaped, list(memory.split_with_sizes(sizes))


class _Part:
    """Weights that are copied and read at once: the copies, and the same memory layer by layer."""

    def __init__(self, segments: list[_Segment], copies: list[Tensor], values: list[Tensor]) -> None:
        self.copies, self.values = copies, values
        self._parameters: list[Tensor] = [parameter for segment in segments for parameter in segment.parameters]
        self._weights = [local(parameter).detach() for parameter in self._parameters]
        self._segments = segments
        self._keys: dict[str, list[Key]] = {}

    def weights(self) -> list[Tensor]:
        """Returns the parameters detached from the graph, on which operations are much faster.

        They share the parameters' memory. A parameter that has moved is recognised by its address, which cannot be
        reused while the old memory is held here.
        """
        for index, parameter in enumerate(self._parameters):
            here = local(parameter)
            if here.data_ptr() != self._weights[index].data_ptr():
                self._weights[index] = here.detach()
        return self._weights

    def keys(self, quantity: LoadedQuantity) -> list[Key]:
        """Returns the keys of a quantity's readings, one per layer or one per tensor."""
        keys = self._keys.get(quantity.name)
        if keys is None:
            names = [name for segment in self._segments for name in segment.names(quantity)]
            keys = self._keys[quantity.name] = [(quantity.name, name) for name in names]
        return keys


class _GradientCopy:
    """Gradients in contiguous memory, and which layers had any."""

    def __init__(self, memory: Tensor, tensors: list[Tensor], values: list[Tensor]) -> None:
        self.memory, self._tensors, self.values = memory, tensors, values
        self.present = [False] * len(values)
        self.begin()

    def begin(self) -> None:
        """Makes room for the gradients of a step."""
        self._copied = [False] * len(self._tensors)

    def copy(self, parameters: Sequence[Tensor], updated: Collection[int] | None, scale: Tensor | None) -> None:
        """Copies the gradients of those ``parameters`` that are ``updated`` and have one, divided by ``scale``."""
        room, gradients = [], []
        for index, parameter in enumerate(parameters):
            gradient = parameter.grad
            if gradient is not None and (updated is None or id(parameter) in updated):
                gradient = local(gradient)
                room.append(self._tensors[index])
                gradients.append(gradient if gradient.layout is torch.strided else gradient.to_dense())
                self._copied[index] = True
        if room:
            torch._foreach_copy_(room, gradients)
            if scale is not None:
                torch._foreach_div_(room, scale.to(self.memory.device))

    def close(self, segments: Sequence[_Segment]) -> None:
        """Ends the step: of a layer that has gradients, parameters without one count as zeros."""
        copied = iter(self._copied)
        self.present = [any(list(islice(copied, len(segment.parameters)))) for segment in segments]
        for room, there in zip(self._tensors, self._copied, strict=True):
            if not there:
                room.zero_()


def optimizers_in(
    given: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None,
) -> list[torch.optim.Optimizer]:
    """Returns the optimizers given to a probe as a list; raises if one of them is not a torch optimizer."""
    optimizers = [] if given is None else list(given) if isinstance(given, Iterable) else [given]
    for index, optimizer in enumerate(optimizers):
        while hasattr(optimizer, "param_groups") and isinstance(inner := getattr(optimizer, "optimizer", None), _Torch):
            optimizers[index] = optimizer = inner  # prepared by Accelerate or wrapped by Lightning: no hook runs there
        if not hasattr(optimizer, "register_step_pre_hook"):
            kind = type(optimizer).__name__
            raise KymographError(f"optimizer must be a torch optimizer, not a {kind}; give the one that it wraps")
    return optimizers
