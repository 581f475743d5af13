"""Weights, their gradients and their updates, read around a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from kymograph.probes.layers import Layer
from kymograph.probes.quantities import LoadedQuantity, Place
from kymograph.probes.readings import Key


class WeightReader:
    """Reads all weights of the layers at once, tensor by tensor, grouped by device.

    It keeps a copy of the weights for the length of a measured step, if updates are read, and one of the gradients in
    float64 from one measured step to the next, if their inner product is. A tensor that two layers share is read once.
    """

    def __init__(self, layers: Sequence[Layer], quantities: Sequence[LoadedQuantity]) -> None:
        tensors = list({id(one): one for layer in layers for one in layer.parameters}.values())
        tensors.sort(key=lambda one: str(one.device))  # stable: in order on each device
        self._parameters: list[nn.Parameter] = tensors
        names = {id(one): f"tensor {number}" for number, one in enumerate(tensors)}
        self.of_layer = {layer.name: [names[id(one)] for one in layer.parameters] for layer in layers}
        self._names = list(names.values())
        self._at = {
            place: [one for one in quantities if one.place is place]
            for place in (Place.WEIGHT, Place.UPDATE, Place.WEIGHT_GRADIENT)
        }
        self._groups = [
            slice(found[0], found[-1] + 1)
            for _, group in groupby(range(len(tensors)), key=lambda index: tensors[index].device)
            if (found := list(group))
        ]
        self._before: list[Tensor] = []
        self._previous: list[Tensor | None] = [None] * len(tensors)

    @property
    def reads_gradients(self) -> bool:
        """Says whether weight gradients are read at all."""
        return bool(self._at[Place.WEIGHT_GRADIENT])

    @torch.no_grad()
    def begin(self, row: dict[Key, Tensor | float]) -> None:
        """Reads the weights as they are before the step, and keeps a copy if updates are read."""
        values = [parameter.detach() for parameter in self._parameters]
        if self._at[Place.UPDATE]:
            if [(one.shape, one.dtype, one.device) for one in self._before] != [
                (one.shape, one.dtype, one.device) for one in values
            ]:
                self._before = [torch.empty_like(value) for value in values]
            for group in self._groups:
                torch._foreach_copy_(self._before[group], values[group])
        self._measure(Place.WEIGHT, values, row)

    @torch.no_grad()
    def gradients(self, row: dict[Key, Tensor | float]) -> None:
        """Reads the gradients as they are now; a parameter without one is left out."""
        here = [index for index, parameter in enumerate(self._parameters) if parameter.grad is not None]
        found = [_exact(parameter.grad) for parameter in self._parameters if parameter.grad is not None]
        names = [self._names[index] for index in here]
        previous = [self._previous[index] for index in here]
        for quantity in self._at[Place.WEIGHT_GRADIENT]:
            for group in _by_device(found):
                self._put(quantity, names[group], quantity.function(found[group], previous[group]), row)
        self._previous = [None] * len(self._parameters)
        for index, gradient in zip(here, found, strict=True):
            self._previous[index] = gradient

    @torch.no_grad()
    def end(self, row: dict[Key, Tensor | float]) -> None:
        """Reads what the step changed the weights by."""
        if not self._at[Place.UPDATE]:
            return
        values = [parameter.detach() for parameter in self._parameters]
        for before, value in zip(self._before, values, strict=True):
            torch.sub(value, before, out=before)  # into memory that is there already: fresh pages cost more
        self._measure(Place.UPDATE, self._before, row)

    def _measure(self, place: Place, values: list[Tensor], row: dict[Key, Tensor | float]) -> None:
        for quantity in self._at[place]:
            for group in self._groups:
                self._put(quantity, self._names[group], quantity.function(values[group]), row)

    @staticmethod
    def _put(
        quantity: LoadedQuantity,
        names: list[str],
        values: Sequence[Tensor | float | None],
        row: dict[Key, Tensor | float],
    ) -> None:
        for name, value in zip(names, values, strict=True):
            if value is not None:
                row[quantity.name, name] = value


def _exact(gradient: Tensor) -> Tensor:
    """Returns a copy in float64 (float32 where the device has none), dense, so that no square underflows."""
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    wide = torch.float32 if gradient.device.type == "mps" else torch.float64
    if gradient.is_complex():
        gradient = torch.view_as_real(gradient)
    return gradient.detach().to(wide, copy=True)


def _by_device(tensors: Sequence[Tensor]) -> Iterator[slice]:
    """Yields the runs of tensors that are on one device."""
    for _, group in groupby(range(len(tensors)), key=lambda index: tensors[index].device):
        found = list(group)
        yield slice(found[0], found[-1] + 1)
