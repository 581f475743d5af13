"""Rules that compute each gradient directly in ``.grad``, and layers with their derivatives written out.

Autograd computes every gradient in new memory, adds it to a zeroed one and discards it. An accelerator writes to
``.grad`` directly, with the results of its plain twin: gradients to be accumulated are computed in separate memory
first, and where a network has hooks, frozen parameters or an unsupported memory layout, the plain twin does the work.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _hooks

from kymograph._shapes import Float
from kymograph_studies.models.blocks import parameter_names
from kymograph_studies.models.flat import views_of
from kymograph_studies.rules.base import Credit, Rule

Normed = tuple[Tensor, Tensor, Tensor]
"""A LayerNorm's output, and the mean and inverse standard deviation of its inputs."""


def normalise(norm: nn.LayerNorm, h: Float[Tensor, "batch width"]) -> Normed:
    """Returns a LayerNorm's output and what its backward pass needs."""
    return torch.native_layer_norm(h, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def through_norm(
    norm: nn.LayerNorm,
    h: Float[Tensor, "batch width"],
    normed: Normed,
    signal: Float[Tensor, "batch width"],
    fill: bool,
) -> Float[Tensor, "batch width"]:
    """Returns the gradient at a LayerNorm's input from that at its output; fills its own if asked."""
    shape, (_, mean, rstd) = norm.normalized_shape, normed
    back = torch.ops.aten.native_layer_norm_backward
    at_input: Tensor
    at_input, weight, bias = back(signal, h, shape, mean, rstd, norm.weight, norm.bias, [True, fill, fill])
    if fill:
        gradient_of(norm.weight).copy_(weight)
        gradient_of(norm.bias).copy_(bias)
    return at_input


def linear_back(layer: nn.Linear, inputs: Float[Tensor, "batch in"], signal: Float[Tensor, "batch out"]) -> None:
    """Fills the gradients of a linear layer from its inputs and the gradient at its output."""
    torch.mm(signal.t(), inputs, out=gradient_of(layer.weight))
    torch.sum(signal, 0, out=gradient_of(layer.bias))


def gradient_of(parameter: Tensor) -> Tensor:
    """Returns the memory that a parameter's gradient is computed into."""
    assert parameter.grad is not None, "gradients are allocated before an accelerator fills them"
    return parameter.grad


class _Location(NamedTuple):
    """Where a parameter's weights and gradient are. Holding the gradient keeps its address from being reused."""

    parameter: nn.Parameter
    address: int
    gradient: Tensor | None


class InPlace(Rule):
    """The base of every accelerator; in a class's list of bases it comes before the plain twin."""

    def __init__(self, net: nn.Module, *arguments: Any, **options: Any) -> None:
        super().__init__(net, *arguments, **options)
        named = dict(net.named_parameters())
        self._net_parameters = [named[name] for names in parameter_names(net).values() for name in names]
        self._net_modules = list(net.modules())
        self._locations: list[_Location] = []
        self._rule_tensors: list[Tensor | None] = []

    @abstractmethod
    def fill(self, x: Any, y: Any) -> Credit:
        """Writes this batch's gradients over what was in ``.grad``."""

    def locate(self) -> bool:
        """Takes the views it needs of weights and gradients; returns whether their memory layout is supported.

        Called before the first step, and again whenever weights, gradients or `rule_tensors` have moved.
        """
        return True

    def rule_tensors(self) -> Iterable[Tensor | None]:
        """Returns the rule's own tensors that `locate` takes views of."""
        return ()

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds this batch's gradients to ``.grad``, or writes them there; see `Rule.backward`."""
        if not accumulate and self._nothing_moved():
            return self.fill(x, y)
        if self._needs_autograd():
            # By the order of the bases this is the plain twin's method, never the abstract one.
            return super().backward(x, y, accumulate=accumulate)  # type: ignore[safe-super]
        parameters = self._net_parameters
        before = [parameter.grad for parameter in parameters]
        elsewhere = accumulate or any(gradient is None for gradient in before)
        if elsewhere:
            line = parameters[0].detach().new_zeros(sum(parameter.numel() for parameter in parameters))
            for parameter, view in zip(parameters, views_of(line, parameters), strict=True):
                parameter.grad = view
        credit = self.fill(x, y) if self._found() else super().backward(x, y, accumulate=False)  # type: ignore[safe-super]
        if elsewhere:
            for parameter, old in zip(parameters, before, strict=True):
                if old is not None:
                    new = gradient_of(parameter)
                    old.add_(new) if accumulate else old.copy_(new)
                    parameter.grad = old
        return credit

    def _nothing_moved(self) -> bool:
        """Returns whether everything is where the last step found it; checked at every step, so it must be fast."""
        if not self._locations:
            return False
        for parameter, address, gradient in self._locations:
            if parameter.data_ptr() != address or parameter.grad is not gradient:
                return False
        if self._needs_autograd():
            return False
        held = self._rule_tensors
        return not held or all(a is b for a, b in zip(held, self.rule_tensors(), strict=True))

    def _needs_autograd(self) -> bool:
        """Returns whether a hook needs autograd, or a parameter is frozen."""
        return _hooked(self._net_parameters, self._net_modules) or not all(
            parameter.requires_grad for parameter in self._net_parameters
        )

    def _found(self) -> bool:
        """Locates everything again and records where it is; returns whether the memory layout is supported."""
        self._locations, self._rule_tensors = [], []
        if not self.locate():
            return False
        try:
            self._locations = [_Location(weight, weight.data_ptr(), weight.grad) for weight in self._net_parameters]
        except RuntimeError:  # a kind of tensor without storage: located at every step
            return True
        self._rule_tensors = list(self.rule_tensors())
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without locations: a copy has its own memory, and must locate it."""
        return {**self.__dict__, "_locations": [], "_rule_tensors": []}


def _hooked(parameters: Iterable[nn.Parameter], modules: Iterable[nn.Module]) -> bool:
    """Returns whether any hook is registered on these parameters or modules, or globally."""
    for parameter in parameters:
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            return True
    for module in modules:
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return True
    return any(
        (
            _hooks._global_forward_pre_hooks,
            _hooks._global_forward_hooks,
            _hooks._global_backward_pre_hooks,
            _hooks._global_backward_hooks,
        )
    )
