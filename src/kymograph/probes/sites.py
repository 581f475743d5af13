"""Reading activations and their gradients at named sites during one forward and backward pass.

A forward hook reads the output, and a tensor hook on that output reads its gradient. Module backward hooks are never
used, because they break on in-place operations. Tensors are reduced inside the hook and never kept, because a later
in-place operation would overwrite them. Everything is keyed by the site's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import evaluation_mode

Reduce = Callable[[Tensor], Tensor]


class SiteReadings:
    """Reduced readings by site name: of the outputs, and of the gradients with respect to them."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, Tensor]] = {}
        self.gradients: dict[str, dict[str, Tensor]] = {}


@contextmanager
def watching(
    sites: Mapping[str, nn.Module], outputs: Mapping[str, Reduce], gradients: Mapping[str, Reduce]
) -> Iterator[SiteReadings]:
    """Attaches hooks to ``sites`` for a ``with`` block, and fills the readings during its passes.

    Args:
        sites: modules, by the name under which their readings are kept.
        outputs: reductions of a site's output, by name.
        gradients: reductions of the gradient with respect to that output, by name.
    """
    readings = SiteReadings()

    def attach(name: str) -> Callable[[nn.Module, tuple, Tensor], None]:
        def forward_hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
            if not isinstance(output, Tensor):
                kind = type(output).__name__
                raise KymographError(f"{name} returns a {kind}, not a tensor; watch a module that returns one")
            readings.outputs[name] = {key: reduce(output.detach()) for key, reduce in outputs.items()}
            if output.requires_grad and gradients:
                output.register_hook(backward_hook)

        def backward_hook(gradient: Tensor) -> None:
            readings.gradients[name] = {key: reduce(gradient.detach()) for key, reduce in gradients.items()}

        return forward_hook

    handles = [module.register_forward_hook(attach(name)) for name, module in sites.items()]
    try:
        yield readings
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def untouched(net: nn.Module) -> Iterator[None]:
    """Runs a ``with`` block with ``net`` in evaluation mode, then restores its modes and gradients."""
    kept = {parameter: parameter.grad for parameter in net.parameters()}
    for parameter in kept:
        parameter.grad = None
    try:
        with evaluation_mode(net), torch.enable_grad():
            yield
    finally:
        for parameter, gradient in kept.items():
            parameter.grad = gradient
