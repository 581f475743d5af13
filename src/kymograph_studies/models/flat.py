"""The parameters of one network, or of R replicas, in one contiguous tensor with named views.

In a matrix (R, P) each row is a network: an operation on whole networks (clipping, norms, a learning rate per replica)
is a single call, and replicas never mix. In a vector (R * P,) each parameter of all replicas is contiguous, which makes
batched products faster; elementwise operations such as Adam work on either. Gradients live in a second tensor of the
same shape, which autograd fills through the views' ``.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from kymograph._shapes import Shaped
from kymograph_studies.models.blocks import parameter_names


class Flat(Protocol):
    """Parameters and gradients as two tensors of one shape, (R, P) or (R * P,)."""

    values: Tensor
    gradients: Tensor

    def attach(self) -> None:
        """Makes ``gradients`` the ``.grad`` of the parameters again, if it was replaced."""
        ...


class FlatParameters:
    """Weights and gradients of R networks, (R, P) or (R * P,), and a ``nn.Parameter`` view (R, *shape) per name."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        replicas: int,
        device: torch.device | str = "cpu",
        rows: bool = True,
    ) -> None:
        self.replicas, self._shapes, self._rows = replicas, {k: tuple(shape) for k, shape in shapes.items()}, rows
        total = sum(map(math.prod, self._shapes.values()))
        self.values = torch.zeros((replicas, total) if rows else (replicas * total,), device=device)
        self.gradients = torch.zeros_like(self.values)
        self.views = {name: nn.Parameter(view) for name, view in self._cut(self.values).items()}
        self.gradient_views = self._cut(self.gradients)
        self.attach()

    def _cut(self, memory: Tensor) -> dict[str, Tensor]:
        """Returns each parameter's view of ``memory``, (R, *shape)."""
        parts, start, replicas = {}, 0, self.replicas
        for name, shape in self._shapes.items():
            stop = start + math.prod(shape)
            part = memory[:, start:stop] if self._rows else memory[replicas * start : replicas * stop]
            parts[name], start = part.view(replicas, *shape), stop
        return parts

    def attach(self) -> None:
        """Makes ``gradients`` the ``.grad`` of the views."""
        for name, view in self.views.items():
            view.grad = self.gradient_views[name]

    def apply(self, change: Callable[[Tensor], Tensor]) -> None:
        """Applies a change of dtype or device to values and gradients; the views stay views of them."""
        self.values, self.gradients = change(self.values), change(self.gradients)
        self.gradient_views = self._cut(self.gradients)
        for name, values in self._cut(self.values).items():
            self.views[name].grad = None  # a gradient must have its parameter's dtype and device
            self.views[name].data = values
        self.attach()

    def fill(self, replica: int, tensors: Mapping[str, Tensor]) -> None:
        """Sets every parameter of one replica."""
        if tensors.keys() != self.views.keys():
            raise ValueError(f"expected parameters {sorted(self.views)}, got {sorted(tensors)}")
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.views[name][replica] = tensor.to(self.values.device)


class ReplicaNetwork(nn.Module):
    """R networks of one shape with a leading replica axis; subclasses set `flat`."""

    flat: FlatParameters

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves or casts the flat memory first, so that the parameters stay views of it."""
        self.flat.apply(fn)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch's has no annotations
        return self


class FlatNetwork:
    """A single network whose parameters are views of one row: the case R = 1 of `FlatParameters`."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.groups = parameter_names(net)
        named = dict(net.named_parameters())
        self._parameters = [named[name] for names in self.groups.values() for name in names]
        total = sum(parameter.numel() for parameter in self._parameters)
        self.values = self._parameters[0].detach().new_empty(1, total)  # (1, P)
        self.gradients = torch.zeros_like(self.values)
        for parameter, view in zip(self._parameters, views_of(self.values[0], self._parameters), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
        self._gradient_views = views_of(self.gradients[0], self._parameters)
        self.attach()
        self.spans: dict[str, slice] = {}
        """The columns of each part."""
        start = 0
        for group, names in self.groups.items():
            stop = start + sum(named[name].numel() for name in names)
            self.spans[group], start = slice(start, stop), stop

    def attach(self) -> None:
        """Makes ``gradients`` the ``.grad`` of the parameters."""
        for parameter, view in zip(self._parameters, self._gradient_views, strict=True):
            parameter.grad = view

    @property
    def block_spans(self) -> list[slice]:
        """The columns of each block."""
        return [span for name, span in self.spans.items() if name.startswith("blocks.")]


def views_of(line: Shaped[Tensor, " numbers"], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns consecutive slices of ``line``, with the shapes of ``tensors``."""
    views, start = [], 0
    for tensor in tensors:
        views.append(line[start : start + tensor.numel()].view(tensor.shape))
        start += tensor.numel()
    return views


def stack_of_views(tensors: Sequence[Tensor]) -> Tensor | None:
    """Returns tensors of one shape, evenly spaced in one storage, as one tensor (n, ...): a view, not a copy.

    None if they are not evenly spaced in one storage.
    """
    first = tensors[0].detach()
    if any(_form(tensor) != _form(first) for tensor in tensors):
        return None
    try:
        memories = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    except RuntimeError:  # a kind of tensor without storage
        return None
    steps = {after.storage_offset() - before.storage_offset() for before, after in pairwise(tensors)}
    if len(memories) > 1 or len(steps) > 1 or min(steps, default=1) <= 0:
        return None
    step = steps.pop() if steps else first.numel()
    return first.as_strided((len(tensors), *first.shape), (step, *first.stride()), first.storage_offset())


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device
