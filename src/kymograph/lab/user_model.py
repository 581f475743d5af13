"""The user's own network, from a function in a file, with a batch on which rules can be proved."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kymograph import streams
from kymograph.errors import KymographError
from kymograph.foreign.files import real_path
from kymograph.models.blocks import evaluation_mode
from kymograph.models.examples import guess_example
from kymograph.rules.losses import Loss, cross_entropy
from kymograph.sweep.code_reference import without_bytecode


class UserModel(NamedTuple):
    """A network with a batch and the loss that it is trained with."""

    net: nn.Module
    x: Any
    y: Any
    loss: Loss


def load_model(reference: str, seed: int = 42, samples: int = 16) -> UserModel:
    """Returns the network that ``file.py:function`` makes, alone or with ``x, y`` or ``x, y, loss``.

    Without a batch, inputs are guessed from the first layer, and random targets are drawn: classes, with the
    cross-entropy, for outputs (batch, classes), and real numbers, with the squared error, for outputs of other shapes.
    """
    made = _call(_function(reference), reference)
    net, *rest = made if isinstance(made, tuple) else (made,)
    if not isinstance(net, nn.Module) or len(rest) not in (0, 2, 3):
        raise KymographError(f"{reference} must return a network, or (network, x, y), or (network, x, y, loss)")
    if rest:
        x, y, *own_loss = rest
        return UserModel(net, x, y, own_loss[0] if own_loss else cross_entropy)
    draw = streams.generator(seed, "model", "batch")
    x = guess_example(net, samples, draw)
    with evaluation_mode(net), torch.no_grad():
        outputs = net(x)
    if outputs.dim() == 2:
        return UserModel(net, x, torch.randint(outputs.shape[-1], (samples,), generator=draw), cross_entropy)
    return UserModel(net, x, torch.randn(outputs.shape, generator=draw).to(outputs), squared_error)


def squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Returns the mean squared error."""
    return nn.functional.mse_loss(outputs, y)


def _function(reference: str) -> Callable[[], Any]:
    file, _, name = reference.rpartition(":")
    path = Path(file)
    if not name or path.suffix != ".py":
        raise KymographError(f"name a function in a file, as in model.py:make_model, not {reference!r}")
    if not path.is_file():
        raise KymographError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(real_path(path).parent))  # so that it can import its neighbours
    try:
        with without_bytecode():
            spec.loader.exec_module(module)
    except Exception as error:  # a user's file can fail to load in any way
        raise KymographError(f"cannot load {file}: {_reason(error)}") from None
    finally:
        sys.path.pop()
    found = getattr(module, name, None)
    if not callable(found):
        raise KymographError(f"{file} defines no function {name!r}")
    return found


def _call(function: Callable[[], Any], reference: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise KymographError(f"{reference} fails: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
