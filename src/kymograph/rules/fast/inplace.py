"""Rules that compute each gradient where it belongs, instead of making it elsewhere and adding it.

Autograd makes every gradient in new memory, adds it to a zeroed one and throws it away. What is written out here fills
the memory of ``.grad`` at once. It does what its plain twin does: where gradients are to be added, they are computed in
memory of their own first; and where a network has hooks, frozen parameters or memory that the arithmetic cannot work
in, the plain twin does the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from kymograph.models.blocks import parameter_names
from kymograph.models.flat import views_of
from kymograph.rules.base import Credit, Rule
from kymograph.rules.losses import Loss


class InPlace(Rule):
    """The base of every accelerator; among a class's bases, it comes before the plain twin."""

    def __init__(self, net: nn.Module, *arguments: Any, loss: Loss | None = None, **options: Any) -> None:
        super().__init__(net, *arguments, loss=loss, **options)
        named = dict(net.named_parameters())
        self._net_parameters = [named[name] for names in parameter_names(net).values() for name in names]
        self._net_modules = list(net.modules())

    def fill(self, x: Any, y: Any) -> Credit:
        """Writes this batch's gradients over what was in ``.grad``."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Returns whether the arithmetic can work in the memory of the weights and gradients."""
        return True

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds this batch's gradients to ``.grad``, or writes them there; see `Rule.backward`."""
        if self._needs_autograd():
            return super().backward(x, y, accumulate=accumulate)
        own = self._net_parameters
        if not accumulate and all(parameter.grad is not None for parameter in own):
            return self.fill(x, y) if self.ready() else super().backward(x, y, accumulate=False)
        before = [parameter.grad for parameter in own]
        line = own[0].detach().new_zeros(sum(parameter.numel() for parameter in own))
        for parameter, view in zip(own, views_of(line, own), strict=True):
            parameter.grad = view
        credit = self.fill(x, y) if self.ready() else super().backward(x, y, accumulate=False)
        for parameter, old in zip(own, before, strict=True):
            if old is not None:
                assert parameter.grad is not None
                old.add_(parameter.grad) if accumulate else old.copy_(parameter.grad)
                parameter.grad = old
        return credit

    def _needs_autograd(self) -> bool:
        """Returns whether a hook waits for autograd, or a parameter is not to be trained."""
        for module in self._net_modules:
            if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
                return True
        return any(own._backward_hooks or not own.requires_grad for own in self._net_parameters)


class Located(InPlace):
    """An accelerator that keeps views of weights and gradients, and looks for them anew after they have moved."""

    def __init__(self, net: nn.Module, *arguments: Any, loss: Loss | None = None, **options: Any) -> None:
        super().__init__(net, *arguments, loss=loss, **options)
        self._found_at: list[int] | None = None

    def locate(self) -> bool:
        """Takes views of weights, gradients and the rule's own matrices; returns whether they lie as is needed."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Returns whether everything is where it was, or has been found again."""
        if self._found_at is not None and self._found_at == self._addresses():
            return True
        found = self.locate()
        self._found_at = self._addresses() if found else None
        return found

    def __getstate__(self) -> dict[str, Any]:
        """A copy has memory of its own, and must look for it."""
        return {**self.__dict__, "_found_at": None}

    def rule_tensors(self) -> Iterable[Tensor | None]:
        """Returns the rule's own tensors that `locate` takes views of."""
        return ()

    def _addresses(self) -> list[int]:
        own = self._net_parameters
        tensors = [*own, *[parameter.grad for parameter in own], *self.rule_tensors()]
        return [_address(tensor) for tensor in tensors]


def _address(tensor: Tensor | None) -> int:
    try:
        return 0 if tensor is None else tensor.data_ptr()
    except RuntimeError:  # a kind of tensor without memory of its own
        return id(tensor)
