"""What each parameter learns from, read from the graph of a forward pass: the weights whose feedback lies above it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from kymograph.errors import KymographError

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
    names = {id(own): name for name, own in net.named_parameters()}
    above: dict[Any, set[str]] = defaultdict(set)
    users: dict[str, set[Any]] = defaultdict(set)
    found: dict[str, set[str]] = {}
    for node in _in_order(outputs.grad_fn):
        parameter = names.get(id(getattr(node, "variable", None)))
        if parameter is not None:
            found[parameter] = above[node]
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
    return found


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
