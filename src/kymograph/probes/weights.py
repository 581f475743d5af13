"""Weights, their gradients and their updates, read around a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.probes.layers import ProbedLayer
from kymograph.probes.quantities import LoadedQuantity, Place
from kymograph.probes.readings import Key, Row


class WeightReader:
    """Reads the weights of all layers around a step.

    The parameters of a layer are copied side by side, so that one operation measures weights and bias together, and a
    step allocates nothing. There is one copy of the weights, if they or their updates are read, and there are two of
    the gradients in float64, if these are: of this measured step and of the previous one.
    """

    def __init__(self, layers: Sequence[ProbedLayer], quantities: Sequence[LoadedQuantity]) -> None:
        self._weights = [one for one in quantities if one.place is Place.WEIGHT]
        self._updates = [one for one in quantities if one.place is Place.UPDATE]
        self._gradients = [one for one in quantities if one.place is Place.WEIGHT_GRADIENT]
        self._layers = [layer for layer in layers if layer.parameters]
        self._groups: list[_Group] = []

    @property
    def reads_gradients(self) -> bool:
        """Says whether weight gradients are read at all."""
        return bool(self._gradients)

    def sites(self, quantity: LoadedQuantity) -> dict[str, list[str]]:
        """Returns the names of the readings from which the value of each layer is put together."""
        return {
            layer.name: [
                name
                for stretch in _stretches(layer)
                for name in ([stretch.name] if quantity.flat else stretch.tensor_names)
            ]
            for layer in self._layers
        }

    def begin(self, row: Row) -> None:
        """Copies the weights as they are before the step, and reads them."""
        if not self._weights and not self._updates:
            return
        with torch.no_grad():
            for group in self._prepared():
                torch._foreach_copy_(group.copies, group.parameters)
                for quantity in self._weights:
                    group.measure(quantity, row)

    def end(self, row: Row) -> None:
        """Reads what the step subtracted from the weights."""
        if not self._updates:
            return
        with torch.no_grad():
            for group in self._prepared():
                torch._foreach_sub_(group.copies, group.parameters)  # where the copy was: fresh memory costs more
                for quantity in self._updates:
                    group.measure(quantity, row)

    def gradients(self, row: Row) -> None:
        """Reads the gradients as they are now; a layer without any is left out."""
        with torch.no_grad():
            for group in self._prepared():
                new, old = group.next_gradients()
                for index, stretch in enumerate(group.stretches):
                    present = [parameter.grad for parameter in stretch.parameters]
                    new.present[index] = any(one is not None for one in present)
                new.fill(group.parameters)
                names = [stretch.name for stretch in group.stretches]
                here = [index for index, present in enumerate(new.present) if present]
                found = [new.values[index] for index in here]
                before = [old.values[index] if old.present[index] else None for index in here]
                for quantity in self._gradients:
                    for index, value in zip(here, quantity.function(found, before), strict=True):
                        if value is not None:
                            row[quantity.name, names[index]] = value

    def release(self) -> None:
        """Lets go of all copies."""
        self._groups = []

    def _prepared(self) -> list[_Group]:
        """Returns the weights by device and type, with memory for their copies."""
        if not self._groups:
            kinds: dict[tuple[torch.device, torch.dtype], list[_Stretch]] = {}
            for stretch in (one for layer in self._layers for one in _stretches(layer)):
                first = stretch.parameters[0]
                kinds.setdefault((first.device, first.dtype), []).append(stretch)
            self._groups = [_Group(stretches) for stretches in kinds.values()]
        return self._groups


class _Stretch:
    """Parameters of one layer that are of one type and on one device."""

    def __init__(self, layer: str, number: int, parameters: list[nn.Parameter]) -> None:
        self.name, self.parameters = f"{layer} {number}", parameters
        self.tensor_names = [f"{self.name} {index}" for index in range(len(parameters))]
        self.size = sum(parameter.numel() for parameter in parameters)


def _stretches(layer: ProbedLayer) -> list[_Stretch]:
    kinds = groupby(layer.parameters, key=lambda one: (str(one.device), str(one.dtype)))
    return [_Stretch(layer.name, number, list(group)) for number, (_, group) in enumerate(kinds)]


class _Group:
    """The parameters of all layers that are of one type and on one device, and memory for a copy of them in a row."""

    def __init__(self, stretches: list[_Stretch]) -> None:
        self.stretches = stretches
        self.parameters: list[Tensor] = [parameter for stretch in stretches for parameter in stretch.parameters]
        self.copies, self.values = self._room(self.parameters[0].dtype)
        self._gradients: list[_GradientCopy] = []
        self._keys: dict[str, list[Key]] = {}

    def measure(self, quantity: LoadedQuantity, row: Row) -> None:
        """Reads what the copies hold: layer by layer in a row, or tensor by tensor."""
        keys = self._keys.get(quantity.name)
        if keys is None:
            names = [name for one in self.stretches for name in ([one.name] if quantity.flat else one.tensor_names)]
            keys = self._keys[quantity.name] = [(quantity.name, name) for name in names]
        row.update(zip(keys, quantity.function(self.values if quantity.flat else self.copies), strict=True))

    def next_gradients(self) -> tuple[_GradientCopy, _GradientCopy]:
        """Returns memory for the gradients of this step, and those of the previous measured one."""
        if not self._gradients:
            wide = torch.float32 if self.parameters[0].device.type == "mps" else torch.float64  # mps has no float64
            self._gradients = [_GradientCopy(*self._room(wide)) for _ in range(2)]
        self._gradients.reverse()
        return self._gradients[0], self._gradients[1]

    def _room(self, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
        """Returns new memory as the parameters see it, and as the layers see it, (entries,) each."""
        memory = torch.empty(sum(one.size for one in self.stretches), dtype=dtype, device=self.parameters[0].device)
        pieces = memory.split([parameter.numel() for parameter in self.parameters])
        shaped = [piece.view(one.shape) for piece, one in zip(pieces, self.parameters, strict=True)]
        return shaped, list(memory.split([one.size for one in self.stretches]))


class _GradientCopy:
    """Gradients in a row, and which layers had any."""

    def __init__(self, tensors: list[Tensor], values: list[Tensor]) -> None:
        self._tensors, self.values = tensors, values
        self.present = [False] * len(values)

    def fill(self, parameters: Sequence[Tensor]) -> None:
        """Copies the gradients of ``parameters``; of a parameter without one, beside others that have one, zeros."""
        gradients = [parameter.grad for parameter in parameters]
        dense = [one for one in gradients if one is not None and one.layout is torch.strided]
        if len(dense) == len(gradients):
            torch._foreach_copy_(self._tensors, dense)
            return
        for room, gradient in zip(self._tensors, gradients, strict=True):
            if gradient is None:
                room.zero_()
            else:
                room.copy_(gradient if gradient.layout is torch.strided else gradient.to_dense())


def optimizers_in(
    given: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None,
) -> list[torch.optim.Optimizer]:
    """Returns the optimizers among what a probe was given; raises a sentence if something else is among them."""
    found = [] if given is None else list(given) if isinstance(given, Iterable) else [given]
    for one in found:
        if not hasattr(one, "register_step_pre_hook"):
            kind = type(one).__name__
            raise KymographError(f"optimizer must be a torch optimizer, not a {kind}; give the one that it wraps")
    return found
