"""The weights of a network, their feedback, and what each parameter learns from."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kymograph import KymographError


def weights_of(net: nn.Module) -> dict[str, nn.Parameter]:
    """Returns every parameter that can be a weight: all with two axes or more, except tables that are only looked up.

    An embedding table that a layer shares as its weight is included.
    """
    looked_up: set[int] = set()
    used: set[int] = set()
    for module in net.modules():
        for parameter in module.parameters(recurse=False):
            (looked_up if isinstance(module, nn.Embedding | nn.EmbeddingBag) else used).add(id(parameter))
    return {
        name: parameter
        for name, parameter in net.named_parameters()
        if parameter.dim() >= 2 and (id(parameter) in used or id(parameter) not in looked_up)
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
        return any(name == held for held in self)

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
        spans = [
            (weight.data_ptr(), _extent(weight) * weight.element_size(), name, weight)
            for name, weight in weights.items()
        ]
        self._spans = sorted(spans, key=lambda span: span[0])
        self._starts = [start for start, *_ in self._spans]

    def find(self, tensor: Tensor) -> Use | None:
        """Returns the weight that ``tensor`` is, whole or as a view; None if it is not a weight."""
        address = tensor.data_ptr()
        position = bisect.bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        start, size, name, weight = self._spans[position]
        if address >= start + size or tensor.dtype != weight.dtype or tensor.device != weight.device:
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


VIEWS = ("T", "Transpose", "Permute", "View", "UnsafeView", "Split", "SplitWithSizes", "Chunk", "Slice", "Select",
         "Unsqueeze", "Squeeze", "AsStrided", "Expand", "Alias", "Reshape", "Unbind", "ToCopy", "Clone")  # fmt: skip
"""Operations that pass on a parameter unchanged."""
LOCAL = ("Embedding", "EmbeddingBag", "Add", "Sub", "Mul", "Div", "Neg", "Cat", "Stack", "Index", "IndexSelect",
         "Gather", "Repeat", "NativeLayerNorm", "NativeBatchNorm", "NativeGroupNorm", "CudnnBatchNorm", "RmsNorm",
         "FusedRmsNorm", "PreluKernel", "Where", "Lerp", "Addcmul", "Pow", "Rsqrt", "Sqrt", "Tanh", "Sigmoid", "Exp",
         "Mean", "Sum", "LinalgVectorNorm", "Norm", "Pad", "ConstantPadNd")  # fmt: skip
"""Operations in which a parameter multiplies no vector: what passes through them is exact under every rule."""


def layers_above(net: nn.Module, outputs: Tensor, weights: Mapping[str, Tensor], rule: str) -> dict[str, set[str]]:
    """Returns, for every parameter that the outputs depend on, the weights through whose feedback its signal comes.

    Raises if a weight is used by an unlisted operation that would pass the signal on exactly: a recomputation, compiled
    code, a custom function.
    """
    names = {id(tensor): name for name, tensor in net.named_parameters()}
    above: dict[Any, set[str]] = defaultdict(set)
    users: dict[str, set[Any]] = defaultdict(set)
    layers: dict[str, set[str]] = {}
    for node in _in_order(outputs.grad_fn):
        parameter = names.get(id(getattr(node, "variable", None)))
        if parameter is not None:
            layers[parameter] = above[node]
            continue
        layer = getattr(node, "layer", None)
        for position, (below, _) in enumerate(node.next_functions):
            if below is not None:
                above[below] |= above[node] | ({layer} if layer is not None and position == 0 else set())
                for name in _parameters(below, names):
                    users[name].add(node)
    for name in weights:
        for node in users[name]:
            if not _cannot_bypass_feedback(node, names):
                raise KymographError(
                    f"{rule} cannot pass through {_operation(node)}, which uses {name} and would pass the signal on "
                    "exactly; remove torch.compile, the recomputation or the custom function, or train with bp"
                )
    return layers


def _cannot_bypass_feedback(node: Any, names: Mapping[int, str]) -> bool:
    if getattr(node, "layer", None) is not None or _operation(node) in VIEWS or _operation(node) in LOCAL:
        return True
    inputs = [below for below, _ in node.next_functions if below is not None]
    # A product with nothing below it that learns, as in a first layer, has nothing to pass on.
    return not _is_custom(node) and all(_parameters(below, names) for below in inputs)


def _is_custom(node: Any) -> bool:
    """Returns whether a node is a Python autograd function, whose inner computation is not visible."""
    return hasattr(type(node), "_forward_cls")


def _parameters(node: Any, names: Mapping[int, str]) -> list[str]:
    """Returns the name of the parameter that a node is, or is a view of; empty if it is computed."""
    while _operation(node) in VIEWS and node.next_functions and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    name = names.get(id(getattr(node, "variable", None)))
    return [] if name is None else [name]


def _operation(node: Any) -> str:
    return str(node.name()).rsplit("::", 1)[-1].partition("Backward")[0].rstrip("0123456789")


def _in_order(root: Any) -> Iterator[Any]:
    """Yields every node of a graph after all nodes that lead to it."""
    if root is None:
        return
    incoming: Counter[Any] = Counter()
    pending, known = [root], {root}
    while pending:
        for below, _ in pending.pop().next_functions:
            if below is not None:
                incoming[below] += 1
                if below not in known:
                    known.add(below)
                    pending.append(below)
    ready = [root]
    while ready:
        node = ready.pop()
        yield node
        for below, _ in node.next_functions:
            if below is not None:
                incoming[below] -= 1
                if not incoming[below]:
                    ready.append(below)
