"""A network's modules: which are layers, their names and weights; and evaluation mode for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from kymograph._errors import KymographError, did_you_mean
from kymograph._probes.site_families import matches

_WRAPPING = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_INSERTED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")  # into names, by wrappers
_OPAQUE = (nn.MultiheadAttention, torch.jit.ScriptModule)  # the modules inside are never called
_CHANNELS_FIRST = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)
_UNITS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)
ROOT = "(model)"


@dataclass(frozen=True)
class ProbedLayer:
    """A module that is measured: its name without wrappers, and its parameters."""

    name: str
    module: nn.Module
    parameters: tuple[nn.Parameter, ...]
    contains_layers: bool = False
    """The parameters are all that are inside the module, so they may be those of other layers as well."""


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the network inside compilation and data-parallel wrappers."""
    while isinstance(model, _WRAPPING) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, _WRAPPING) else model._orig_mod  # type: ignore[assignment]
    return model


def compiled_modules(model: nn.Module) -> set[nn.Module]:
    """Returns the modules in ``model`` that are compiled or inside one that is, where hooks do not run."""
    return {
        inside
        for module in model.modules()
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for inside in module.modules()
    }


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
    """Returns the layers of ``model``: those that match ``patterns``, or all in the order of the network.

    A layer is a module without children, an attention, a module with parameters of its own, or a block. A pattern may
    name any other module as well: ``*`` stands for one part of a name or a piece of it, ``**`` for any number of parts.
    The parameters of a block, and of a named module that has none of its own, are all parameters inside it.
    """
    model = unwrapped(model)
    modules = {
        ".".join(word for word in name.split(".") if word not in _INSERTED) or ROOT: module
        for name, module in _outside_parametrizations(model)
    }
    blocks = _blocks(modules)
    if patterns is None:
        chosen = {name: module for name, module in modules.items() if name in blocks or _is_layer(module)}
    else:
        chosen = {}
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            matching = {name: module for name, module in modules.items() if _matches(name, pattern)}
            if not matching:
                raise KymographError(f"no layer matches {pattern!r}{_instead(pattern, modules)}")
            chosen |= matching
    if not chosen:
        raise KymographError("the model has no layers to measure")
    layers = []
    for name, module in chosen.items():
        own = () if name in blocks else tuple(_parameters(module))
        layers.append(ProbedLayer(name, module, own or tuple(module.parameters()), contains_layers=not own))
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


def can_be_called(module: nn.Module) -> bool:
    """Returns whether ``module`` has a forward pass, which lists and dictionaries of modules have not."""
    return isinstance(module, _OPAQUE) or type(module).forward is not nn.Module.forward


def _blocks(modules: Mapping[str, nn.Module]) -> set[str]:
    """Returns the names of the blocks: numbered modules of one parent and one class, at least two, with modules inside.

    Numbers are ``layers.0`` and, outside of any block, ``down1``; ``attn1`` and ``attn2`` are two parts of one block. A
    plain Sequential is none, because its output is that of its last module, which is a layer or a block itself.
    """
    siblings: dict[tuple[str, str, type[nn.Module]], list[str]] = {}
    for name, module in modules.items():
        parent, _, word = name.rpartition(".")
        stem = word.rstrip("0123456789")
        if stem != word and _inside(module) and not isinstance(module, _OPAQUE) and (
            type(module).forward not in (nn.Module.forward, nn.Sequential.forward)
        ):  # fmt: skip
            siblings.setdefault((parent, stem, type(module)), []).append(name)
    blocks: set[str] = set()
    for (parent, stem, _), names in siblings.items():  # outer ones first
        around = {parent[: end.start()] for end in re.finditer(r"\.|$", parent)}
        if len(names) > 1 and not (stem and around & blocks):
            blocks |= set(names)
    return blocks


def _matches(name: str, pattern: str) -> bool:
    """Returns whether a module's name matches; the whole network is not inside itself, and matches only its name."""
    return pattern == name if name == ROOT else matches(name, pattern)


def _instead(pattern: str, names: Iterable[str]) -> str:
    """Returns what to write instead of a pattern that matches none of ``names``."""
    deeper = ".".join("**" if part == "*" else part for part in pattern.split("."))
    if any(_matches(name, deeper) for name in names):
        return f"; * stands for one part of a name: did you mean {deeper!r}?"
    return did_you_mean(pattern, names)


def _inside(module: nn.Module) -> list[nn.Module]:
    """Returns the modules directly inside ``module``, without parametrizations and empty dictionaries."""
    parametrizations = module.parametrizations if parametrize.is_parametrized(module) else None
    return [
        child
        for child in module.children()
        if child is not parametrizations and not (isinstance(child, nn.ModuleDict) and not len(child))
    ]


def _is_layer(module: nn.Module) -> bool:
    inside = _inside(module)
    if isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential) and not inside:
        return False  # empty
    has_parameters = any(True for _ in module.parameters(recurse=False))
    return not inside or has_parameters or isinstance(module, _OPAQUE)


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    """Returns the parameters that are the module's and not a child's, each once."""
    parameters = list(module.parameters(recurse=isinstance(module, _OPAQUE)))
    if not isinstance(module, _OPAQUE) and parametrize.is_parametrized(module):
        parameters += module.parametrizations.parameters()  # type: ignore[union-attr]
    return list({id(parameter): parameter for parameter in parameters}.values())


def _refuse_unmeasurable(name: str, parameter: nn.Parameter) -> None:
    """Raises if a parameter cannot be measured."""
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        raise KymographError(f"{name} has no weights yet; run one forward pass before you attach a probe")
    if parameter.is_meta:
        raise KymographError(f"{name} is on the meta device and has no values; give it weights first")
