"""Runs any module so that the backward pass of every product with a weight uses that weight's feedback.

The products compute y = W x forward and B^T g backward, exact for W and the bias. Nothing else differs from the layer
itself, so with B = W each is the ordinary product. Under autocast the backward pass runs in the precision of the
outputs, as in autograd.

The module's own code runs unchanged: a `TorchFunctionMode` (`Carrying`) sees each torch call, wherever it is made, and
swaps the products. Module backward hooks would miss functional calls, break on in-place operations, and still compute
the product that they replace. `Surrogate` derives the same gradients a second time.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kymograph import KymographError
from kymograph_studies.rules.layers.weights import WeightTable, viewed_like


class LinearProduct(torch.autograd.Function):
    """``x W^T + b`` for x (..., inputs) and W (outputs, inputs), with B (outputs, inputs) in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, layer: str) -> Tensor:
        """Returns the outputs, (..., outputs)."""
        out = nn.functional.linear(x, weight, bias)
        ctx.layer = layer  # read from the graph by `layers_above`
        ctx.save_for_backward(x.to(out.dtype) if weight.requires_grad else None, feedback)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Returns g B for the inputs, and the exact gradients of weight and bias."""
        (gradient,) = gradients
        x, feedback = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (
            gradient @ feedback.to(gradient.dtype) if for_x else None,
            rows.t() @ x.reshape(-1, x.shape[-1]) if for_weight else None,
            rows.sum(0) if for_bias else None,
            None,
            None,
        )


class ConvolutionSettings(NamedTuple):
    """The arguments of `torch.convolution` after input, weight and bias."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


class ConvolutionProduct(torch.autograd.Function):
    """A convolution, plain or transposed, with any number of axes, with the kernel B in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        feedback: Tensor,
        layer: str,
        settings: ConvolutionSettings,
    ) -> Tensor:
        """Returns the outputs, (batch, channels, ...)."""
        out = torch.convolution(x, weight, bias, *settings)
        ctx.layer, ctx.settings = layer, settings
        ctx.bias_sizes = None if bias is None else [len(bias)]
        ctx.save_for_backward(x.to(out.dtype), feedback)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradient through the kernel B for the inputs, and the exact ones of weight and bias."""
        (gradient,) = gradients
        x, feedback = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        back = torch.ops.aten.convolution_backward
        feedback = feedback.to(gradient.dtype)
        at_x = at_weight = at_bias = None
        if for_x:
            at_x = back(gradient, x, feedback, None, *ctx.settings, (True, False, False))[0]
        if for_weight or for_bias:  # only the shape of the weight is used
            mask = (False, for_weight, for_bias)
            _, at_weight, at_bias = back(gradient, x, feedback, ctx.bias_sizes, *ctx.settings, mask)
        return at_x, at_weight, at_bias, None, None, None


F = torch.nn.functional
Operation = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""A product as torch computes it, from input, weight and bias."""
Swapped = Callable[..., Tensor]
"""The same product, from input, weight, bias and feedback."""


class Carrying(TorchFunctionMode):
    """Swaps every product of a weight with something that learns, for as long as it is entered.

    Args:
        weights: the parameters that have feedback, by name.
        feedback: returns the feedback of a weight, in the weight's shape and layout; called at most once per weight.
        rule: the rule's name in error messages.
    """

    def __init__(self, weights: Mapping[str, Tensor], feedback: Callable[[str], Tensor], rule: str) -> None:
        super().__init__()
        self._table, self._feedback, self._rule = WeightTable(weights), functools.cache(feedback), rule
        self._swapped: set[str] = set()
        self._going_back = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one call of torch, swapped if it is a product with a weight."""
        kwargs = kwargs or {}
        swap = _SWAPS.get(func)
        if swap is not None:
            return swap(self, func, *args, **kwargs)
        if func in _OPENED:
            # Layers that the backward pass recomputes are swapped as in the forward pass: their inputs are detached by
            # then, so it can no longer be seen whether something below learns.
            self._going_back = self._going_back or func in _GOING_BACK
            with self:
                return opened(func)(*args, **kwargs)
        if func in _REFUSED:
            self.refuse(func, args, kwargs)
        return func(*args, **kwargs)

    def product(self, plain: Operation, x: Tensor, weight: Tensor, bias: Tensor | None, swapped: Swapped) -> Tensor:
        """Returns the plain product if nothing below learns; otherwise the one whose backward pass uses feedback."""
        if not torch.is_grad_enabled() or not (x.requires_grad or self._going_back):
            return plain(x, weight, bias)
        use = self._table.find(weight)
        if self._going_back and (use is None or use.name not in self._swapped):
            return plain(x, weight, bias)
        if use is None:
            raise KymographError(
                f"{self._rule} cannot pass through a layer whose weight, of shape {tuple(weight.shape)}, is computed "
                "or not a parameter, so it has no feedback; remove the parametrisation, or train with bp"
            )
        self._swapped.add(use.name)
        feedback = viewed_like(self._feedback(use.name), weight, use)
        return self.swapped(plain, x, weight, bias, feedback, functools.partial(swapped, layer=use.name))

    def swapped(
        self, plain: Operation, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, swapped: Swapped
    ) -> Tensor:
        """Returns the product with ``weight`` in the forward pass and ``feedback`` in the backward pass."""
        return swapped(x, weight, bias, feedback)

    def is_weight(self, tensor: Any) -> bool:
        """Returns whether ``tensor`` is a weight, or a view of one."""
        return isinstance(tensor, Tensor) and tensor.dim() >= 2 and self._table.find(tensor) is not None

    def refuse(self, func: Any, *arguments: Any) -> None:
        """Raises if a function that feedback cannot pass through uses a weight, and something below it learns."""
        tensors = _tensors(arguments)
        uses = [use for tensor in tensors if tensor.dim() >= 2 and (use := self._table.find(tensor)) is not None]
        learning = [tensor for tensor in tensors if tensor.requires_grad and self._table.find(tensor) is None]
        if uses and torch.is_grad_enabled() and (learning or func in _RECURRENT):
            raise KymographError(
                f"{self._rule} cannot pass through {getattr(func, '__name__', func)}, which uses {uses[0].name}; write "
                "it with linear, conv or matmul, or train with bp"
            )


def _linear(
    mode: Carrying, func: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    return mode.product(func, input, weight, bias, _linear_back)


def _linear_back(x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, layer: str) -> Tensor:
    # torch's `apply` has no annotations.
    out: Tensor = LinearProduct.apply(x, weight, bias, feedback, layer)  # type: ignore[no-untyped-call]
    return out


def _matmul(mode: Carrying, func: Callable[..., Tensor], input: Tensor, other: Tensor, **kwargs: Any) -> Tensor:
    right, left = mode.is_weight(other), mode.is_weight(input)
    if right == left:  # no weight, or a weight made of two
        return func(input, other, **kwargs)
    weight, x = (other, input) if right else (input, other)
    if weight.dim() > 2 or x.dim() < (1 if right else 2):
        mode.refuse(func, weight, x)
        return func(input, other, **kwargs)
    if right:
        return mode.product(lambda x, weight, _: func(x, weight.t()), x, weight.t(), None, _linear_back)
    return mode.product(lambda x, weight, _: func(weight, x), x, weight, None, _from_the_left)


def _from_the_left(x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, layer: str) -> Tensor:
    return _linear_back(x.mT, weight, bias, feedback, layer).mT


def _reversed_matmul(mode: Carrying, func: Callable[..., Tensor], input: Tensor, other: Tensor) -> Tensor:
    return _matmul(mode, lambda left, right: func(right, left), other, input)


def _addmm(
    mode: Carrying, func: Callable[..., Tensor], input: Tensor, mat1: Tensor, mat2: Tensor, **scales: Any
) -> Tensor:
    if not (mode.is_weight(mat1) or mode.is_weight(mat2)):
        return func(input, mat1, mat2, **scales)
    out: Tensor = scales.get("beta", 1) * input + scales.get("alpha", 1) * _matmul(mode, torch.matmul, mat1, mat2)
    return out


def _convolution(
    mode: Carrying,
    func: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *values: Any,
    **named: Any,
) -> Tensor:
    order, axes, x = _CONVOLUTIONS[func], weight.dim() - 2, input
    given: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1}
    given |= dict(zip(order, values, strict=False)) | named
    if isinstance(given["padding"], str):
        x, given["padding"] = _padded(input, weight, given["padding"], _each(given["dilation"], axes))
    stride, padding, dilation, extra = (
        _each(given[name], axes) for name in ("stride", "padding", "dilation", "output_padding")
    )
    settings = ConvolutionSettings(stride, padding, dilation, "output_padding" in order, extra, given["groups"])

    def plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return func(x, weight, bias, *(given[name] for name in order))

    return mode.product(plain, x, weight, bias, functools.partial(_convolution_back, settings))


def _convolution_back(
    settings: ConvolutionSettings, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, layer: str
) -> Tensor:
    if x.dim() < weight.dim():  # a single sample
        return _convolution_back(settings, x[None], weight, bias, feedback, layer)[0]
    # torch's `apply` has no annotations.
    out: Tensor = ConvolutionProduct.apply(x, weight, bias, feedback, layer, settings)  # type: ignore[no-untyped-call]
    return out


def _each(value: Any, axes: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * axes if len(values) == 1 else values


def _padded(x: Tensor, weight: Tensor, padding: str, dilation: list[int]) -> tuple[Tensor, list[int]]:
    """Returns the input padded for ``valid`` or ``same``, and the padding left for the convolution."""
    none = [0] * len(dilation)
    if padding == "valid":
        return x, none
    totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
    if all(total % 2 == 0 for total in totals):
        return x, [total // 2 for total in totals]
    ends = [end for total in reversed(totals) for end in (total // 2, total - total // 2)]  # the last axis comes first
    return F.pad(x, ends), none


def _tensors(nested: Any) -> list[Tensor]:
    if isinstance(nested, Tensor):
        return [nested]
    if isinstance(nested, Mapping):
        nested = list(nested.values())
    return [tensor for part in nested for tensor in _tensors(part)] if isinstance(nested, list | tuple) else []


@functools.cache
def opened(func: types.FunctionType) -> types.FunctionType:
    """Returns a copy of a torch function whose inner calls a mode sees one by one.

    torch's Python functions first hand themselves whole to an active mode; the copy runs its code without that check.
    """
    unasked = {name: lambda *_: False for name in func.__globals__ if name.startswith("has_torch_function")}
    copy = types.FunctionType(
        func.__code__, {**func.__globals__, **unasked}, func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


_GOING_BACK = {Tensor.backward, torch.autograd.grad, torch.autograd.backward}
_OPENED = {F.multi_head_attention_forward} | _GOING_BACK
_CONVOLUTIONS: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), ("stride", "padding", "dilation", "groups")),
    **dict.fromkeys(
        (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
        ("stride", "padding", "output_padding", "groups", "dilation"),
    ),
}
"""The arguments of each convolution after input, weight and bias, in order."""
_SWAPS: dict[Any, Callable[..., Tensor]] = {
    F.linear: _linear,
    torch.addmm: _addmm,
    Tensor.addmm: _addmm,
    Tensor.__rmatmul__: _reversed_matmul,
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm), _matmul),
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
}
_RECURRENT = {  # they pass through their weights from one time step to the next, whether or not their input learns
    getattr(torch, name + cell) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")
}
_REFUSED = {
    getattr(owner, name)
    for owner, names in (
        (torch, "einsum bmm baddbmm addbmm addmv mv inner kron tensordot chain_matmul bilinear convolution conv_tbc"),
        (Tensor, "bmm baddbmm addbmm addmv mv inner kron"),
        (F, "bilinear"),
        (torch.linalg, "multi_dot"),
    )
    for name in names.split()
} | _RECURRENT


class Surrogate(Carrying):
    """Derives the gradients a second time, by plain autograd: replaces every product by another expression.

    ``W stop(x) + B x - stop(B x)`` has the value W x and the gradient B^T g. It takes two products instead of one, so
    it is not used for training, but it has no backward pass of its own that could be wrong.
    """

    def swapped(
        self, plain: Operation, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, swapped: Swapped
    ) -> Tensor:
        """Returns the product as a sum of ordinary ones."""
        carried = plain(x, feedback, None)
        return plain(x.detach(), weight, bias) + carried - carried.detach()
