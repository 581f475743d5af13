"""The weights of a network and their feedback: one tensor B for every weight W that a product can use."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError


def weights_of(net: nn.Module) -> dict[str, nn.Parameter]:
    """Returns every parameter that can be a weight: all with two axes or more, except tables that are only looked up.

    An embedding table that a layer shares as its weight is included.
    """
    looked_up: set[int] = set()
    used: set[int] = set()
    for module in net.modules():
        for own in module.parameters(recurse=False):
            (looked_up if isinstance(module, nn.Embedding | nn.EmbeddingBag) else used).add(id(own))
    return {
        name: own
        for name, own in net.named_parameters()
        if own.dim() >= 2 and (id(own) in used or id(own) not in looked_up)
    }


class NamedTensors(nn.Module):
    """Tensors as buffers under the dotted names of the parameters that they belong to."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self[name] = tensor

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        holder: nn.Module = self
        *path, leaf = name.split(".")
        for step in path:
            if step not in holder._modules:
                holder._modules[step] = nn.Module()
            holder = holder.get_submodule(step)
        holder._buffers[leaf] = tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.named_buffers()])

    def __contains__(self, name: object) -> bool:
        return any(name == own for own in self)

    def tensors(self) -> dict[str, Tensor]:
        """Returns every tensor by name."""
        return dict(self.named_buffers())


class Use(NamedTuple):
    """A weight as one operation uses it: the weight's name, and where in its memory the view begins."""

    name: str
    offset: int


class WeightTable:
    """Finds the weight that a tensor is a view of: chunks and transposes of a weight are recognised as that weight.

    It holds addresses, so it is rebuilt for every pass.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        spans = [(own.data_ptr(), _extent(own) * own.element_size(), name, own) for name, own in weights.items()]
        self._spans = sorted(spans, key=lambda span: span[0])
        self._starts = [start for start, *_ in self._spans]

    def find(self, tensor: Tensor) -> Use | None:
        """Returns the weight that ``tensor`` is, whole or as a view; None if it is not a weight."""
        address = tensor.data_ptr()
        position = bisect.bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        start, size, name, own = self._spans[position]
        if address >= start + size or tensor.dtype != own.dtype or tensor.device != own.device:
            return None
        return Use(name, (address - start) // tensor.element_size())


def viewed_like(feedback: Tensor, weight: Tensor, use: Use) -> Tensor:
    """Returns ``feedback`` in the same view as ``weight`` is of its parameter."""
    return feedback.as_strided(weight.size(), weight.stride(), feedback.storage_offset() + use.offset)


def same_layout(values: Tensor, weight: Tensor) -> Tensor:
    """Returns ``values`` laid out in memory like ``weight``, with its dtype and device."""
    if _extent(weight) != weight.numel():
        raise KymographError("feedback needs weights that fill their memory without gaps; make them contiguous")
    return torch.empty_strided(weight.size(), weight.stride(), dtype=weight.dtype, device=weight.device).copy_(values)


def _extent(tensor: Tensor) -> int:
    """Returns how many elements of memory a tensor spans, from its first to its last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
