"""Products whose backward pass uses other weights: y = W x forward, B^T g backward, exact for W and the bias.

Nothing else differs from the layer itself, so with B = W each is the ordinary product. Under autocast the backward
pass runs in the precision of the outputs, as in autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class LinearProduct(torch.autograd.Function):
    """``x W^T + b`` for x (..., inputs) and W (outputs, inputs), with B (outputs, inputs) in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, layer: str) -> Tensor:
        """Returns the outputs, (..., outputs)."""
        out = nn.functional.linear(x, weight, bias)
        ctx.layer = layer  # read from the graph by `inspection.py`
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
