"""A network's modules: which are layers, their names and weights; and evaluation mode for all of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from kymograph._errors import KymographError, did_you_mean

_WRAPPING = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_INSERTED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")  # into names, by wrappers
_OPAQUE = (nn.MultiheadAttention, torch.jit.ScriptModule)  # the modules inside are never called
_CHANNELS_FIRST = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)
_UNITS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)
ROOT = "(model)"


@dataclass(frozen=True)
class ProbedLayer:
    """A module that is measured: its name without wrappers, and its own parameters."""

    name: str
    module: nn.Module
    parameters: tuple[nn.Parameter, ...]


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the network inside compilation and data-parallel wrappers."""
    while isinstance(model, _WRAPPING) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, _WRAPPING) else model._orig_mod  # type: ignore[assignment]
    return model


def is_compiled(model: nn.Module) -> bool:
    """Returns whether ``model`` or a part of it is compiled, so that hooks inside it do not run."""
    return any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


@contextmanager
def evaluation_mode(net: nn.Module) -> Iterator[None]:
    """Puts ``net`` in evaluation mode for a ``with`` block, then restores the mode of each of its modules."""
    training = {module: module.training for module in net.modules()}
    net.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


def find_layers(model: nn.Module, patterns: Sequence[str] | None) -> list[ProbedLayer]:
    """Returns the layers of ``model``: those that match ``patterns``, or all.

    A layer is a module without children, an attention, or a module with parameters of its own. A pattern may name any
    other module as well.
    """
    model = unwrapped(model)
    modules = {
        ".".join(word for word in name.split(".") if word not in _INSERTED) or ROOT: module
        for name, module in _outside_parametrizations(model)
    }
    if patterns is None:
        chosen = {name: module for name, module in modules.items() if _is_layer(module)}
    else:
        chosen = {}
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            matching = {name: module for name, module in modules.items() if fnmatch.fnmatchcase(name, pattern)}
            if not matching:
                raise KymographError(f"no layer matches {pattern!r}{did_you_mean(pattern, modules)}")
            chosen |= matching
    if not chosen:
        raise KymographError("the model has no layers to measure")
    layers = [ProbedLayer(name, module, tuple(_parameters(module))) for name, module in chosen.items()]
    for layer in layers:
        for parameter in layer.parameters:
            _refuse_unmeasurable(layer.name, parameter)
    return layers


def named_tensors(output: object, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yields the floating-point tensors in a layer's output with the path to each: ``[0]``, ``[logits]``, ``.mean``.

    >>> [path for path, _ in named_tensors({"logits": torch.ones(1), "hidden": (torch.ones(1), None)})]
    ['[logits]', '[hidden][0]']
    """
    if isinstance(output, Tensor):
        if output.is_floating_point() or output.is_complex():
            yield path, output
    elif isinstance(output, dict):
        for key, value in output.items():
            yield from named_tensors(value, f"{path}[{key}]")
    elif isinstance(output, tuple | list):
        for key, value in enumerate(output):
            yield from named_tensors(value, f"{path}[{key}]")
    elif hasattr(output, "__dataclass_fields__"):
        for key in output.__dataclass_fields__:
            yield from named_tensors(getattr(output, key), f"{path}.{key}")


def units_last(output: Tensor, layer: nn.Module) -> Tensor:
    """Returns ``output`` as a matrix (samples, units).

    Units are the channels of images, (batch, channels, ...), and of the outputs of convolutions, batch norms and group
    norms; otherwise the last axis. All other axes are samples.
    """
    if output.dim() == 2:
        return output
    if output.dim() < 2:
        return output.reshape(1, -1) if output.dim() else output.reshape(1, 1)
    channels = output.dim() > 3 if output.dim() != 3 else isinstance(layer, _CHANNELS_FIRST)
    if channels and not isinstance(layer, _UNITS_LAST):
        output = output.movedim(1, -1)
    return output.flatten(0, -2)


def _outside_parametrizations(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yields the network's modules, without parametrizations and the insides of scripts and attentions."""
    hidden: list[str] = []
    for name, module in model.named_modules():
        if any(name.startswith(prefix) for prefix in hidden):
            continue
        if parametrize.is_parametrized(module):
            hidden.append(f"{name}.parametrizations" if name else "parametrizations")
        if isinstance(module, _OPAQUE):
            hidden.append(f"{name}." if name else "")
        if not isinstance(module, _WRAPPING) and not hasattr(module, "_orig_mod"):
            yield name, module


def _is_layer(module: nn.Module) -> bool:
    parametrizations = module.parametrizations if parametrize.is_parametrized(module) else None
    inside = [
        child
        for child in module.children()
        if child is not parametrizations and not (isinstance(child, nn.ModuleDict) and not len(child))
    ]
    if isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential) and not inside:
        return False  # empty
    has_parameters = any(True for _ in module.parameters(recurse=False))
    return not inside or has_parameters or isinstance(module, _OPAQUE)


def _parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yields the parameters that are the module's and not a child's."""
    if isinstance(module, _OPAQUE):
        yield from module.parameters()
        return
    yield from module.parameters(recurse=False)
    if parametrize.is_parametrized(module):
        yield from module.parametrizations.parameters()  # type: ignore[union-attr]


def _refuse_unmeasurable(name: str, parameter: nn.Parameter) -> None:
    """Raises if a parameter cannot be measured."""
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        raise KymographError(f"{name} has no weights yet; run one forward pass before you attach a probe")
    if parameter.is_meta:
        raise KymographError(f"{name} is on the meta device and has no values; give it weights first")
    if type(parameter.data).__name__ == "DTensor":
        raise KymographError(f"the weights of {name} are sharded over processes, which a probe cannot measure yet")
