"""How a resumable object was constructed: what a run compares before it goes on with an earlier start."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import torch

MOST_ITEMS = 64
"""The most items of a list that are compared one by one; a longer one is data, like a tensor."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Resumable(Protocol):
    """Anything whose state can be saved and restored: a module, an optimizer, a scheduler, a scaler."""

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the state."""
        ...

    def load_state_dict(self, state: Any) -> Any:
        """Restores the state, in place."""
        ...


def constructed(name: str, item: Resumable) -> dict[str, Any]:
    """Returns by name what a resumable object was constructed with, as far as the object itself tells.

    That is its type, the numbers and texts of its state, and the shapes of its tensors; of a module also its layers and
    which of its parameters are frozen; of an optimizer also tensors that are hyperparameters. Initial weights do not
    count: a loop that draws them without a seed may resume.

    >>> constructed("optimizer", torch.optim.SGD([torch.zeros(3)], lr=0.1))["lr of optimizer"]
    0.1
    """
    found: dict[str, Any] = {f"type of {name}": f"{type(item).__module__}.{type(item).__qualname__}"}
    if isinstance(item, torch.optim.Optimizer):
        for number, group in enumerate(item.param_groups, start=1):
            whose = name if len(item.param_groups) == 1 else f"group {number} of {name}"
            sizes = [one.numel() for one in group["params"]]
            found[f"parameters of {whose}"] = f"{sum(sizes)} in {len(sizes)} tensors"
            for key, value in group.items():
                if key != "params":
                    found |= _leaves(value, f"{key}{{}} of {whose}", hyperparameters=True)
        return found
    if isinstance(item, torch.nn.Module):
        for path, layer in item.named_modules():
            text = ""
            with contextlib.suppress(Exception):  # a user's own method, which is not worth an error
                text = _ADDRESS.sub("", layer.extra_repr())
            found[f"{path or 'network'} of {name}"] = f"{type(layer).__name__}({text})"
        for path, parameter in item.named_parameters():
            found[f"requires_grad of {path} of {name}"] = parameter.requires_grad
    return found | _leaves(item.state_dict(), f"{{}} of {name}")


def _leaves(value: Any, pattern: str, hyperparameters: bool = False, path: str = "") -> dict[str, Any]:
    """Returns the scalars in a nested state by name; ``hyperparameters``: tensors count with their values."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple) and len(value) <= MOST_ITEMS:
        items = enumerate(value)
    else:
        leaf = value.tolist() if hyperparameters and isinstance(value, torch.Tensor) else value
        if isinstance(leaf, list):
            return _leaves(leaf, pattern, path=path)
        return {pattern.format(path): plain_value(leaf)}
    found: dict[str, Any] = {}
    for key, item in items:
        inner = f"{path}[{key}]" if path or not isinstance(value, Mapping) else str(key)
        found |= _leaves(item, pattern, hyperparameters, inner)
    return found


def plain_value(value: Any) -> str | int | float | bool | None:
    """Returns a scalar in JSON's types, the type and shape of a tensor, array or list, and the type of all else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, str | int | bool | None):
        return value
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else type(value).__name__
