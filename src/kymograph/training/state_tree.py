"""Nested states, such as those of optimizers, as named tensors and JSON, to be stored without pickling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph.errors import KymographError

_SCALARS = (str, int, float, bool, type(None))


def flatten(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Returns the tensors of a nested state, named ``0``, ``1``, ..., and the rest as JSON-serialisable data.

    Supported are dictionaries with string or integer keys, lists, tuples, tensors, arrays and plain values. Anything
    else could not be read back without running code, and is refused.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _flatten(state, tensors, "state")


def unflatten(shape: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the state that `flatten` took apart; raises ValueError if it is damaged."""
    if isinstance(shape, _SCALARS):
        return shape
    if not isinstance(shape, list) or not shape:
        raise ValueError("not a state")
    kind, *rest = shape
    if kind == "tensor":
        return tensors[rest[0]]
    if kind == "array":
        return tensors[rest[0]].numpy()
    if kind == "float":
        return float(rest[0])
    if kind == "big":
        return int(rest[0])
    if kind == "dict":
        return {_key(key): unflatten(value, tensors) for key, value in rest[0]}
    if kind in ("list", "tuple"):
        items = [unflatten(value, tensors) for value in rest[0]]
        return items if kind == "list" else tuple(items)
    raise ValueError(f"a state has no part of kind {kind!r}")


def _flatten(value: Any, tensors: dict[str, Tensor], path: str) -> Any:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return ["float", repr(value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return ["big", str(value)]  # generators have such numbers, and not every JSON reader preserves them
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, Tensor | np.ndarray | np.generic):
        name = str(len(tensors))
        whole = value.detach().cpu().clone() if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        tensors[name] = whole.contiguous()
        return ["tensor" if isinstance(value, Tensor) else "array", name]
    if isinstance(value, Mapping):
        pairs = []
        for key, item in value.items():
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise _refusal(f"{path}[{key!r}]", key)
            pairs.append([[type(key).__name__, str(key)], _flatten(item, tensors, f"{path}[{key!r}]")])
        return ["dict", pairs]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_flatten(item, tensors, f"{path}[{index}]") for index, item in enumerate(value)]]
    raise _refusal(path, value)


def _refusal(path: str, value: Any) -> KymographError:
    return KymographError(
        f"{path} is a {type(value).__name__}, which cannot be stored; a resumable state has tensors, numbers, "
        "strings, lists and dictionaries"
    )


def _key(described: Any) -> str | int:
    kind, text = described
    return int(text) if kind == "int" else str(text)
