"""Linear layers and LayerNorms with their derivatives written out: each gradient is computed where it belongs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_norm_back = torch.ops.aten.native_layer_norm_backward
Normed = tuple[Tensor, Tensor, Tensor]
"""What a LayerNorm keeps: its output, and the mean and the inverse deviation of its inputs."""


def normalise(norm: nn.LayerNorm, h: Tensor) -> Normed:
    """Returns a LayerNorm's output and what its way back needs."""
    return torch.native_layer_norm(h, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def through_norm(norm: nn.LayerNorm, h: Tensor, normed: Normed, signal: Tensor, fill: bool) -> Tensor:
    """Returns the gradient at a LayerNorm's input from that at its output; fills its own if asked."""
    shape, (_, mean, rstd) = norm.normalized_shape, normed
    at_input: Tensor
    at_input, weight, bias = _norm_back(signal, h, shape, mean, rstd, norm.weight, norm.bias, [True, fill, fill])
    if fill:
        place(norm.weight).copy_(weight)
        place(norm.bias).copy_(bias)
    return at_input


def linear_back(layer: nn.Linear, inputs: Tensor, signal: Tensor) -> None:
    """Fills the gradients of a linear layer from its inputs (B, in) and the gradient at its output (B, out)."""
    torch.mm(signal.t(), inputs, out=place(layer.weight))
    torch.sum(signal, 0, out=place(layer.bias))


def place(parameter: Tensor) -> Tensor:
    """Returns the memory that a parameter's gradient is computed into."""
    assert parameter.grad is not None, "gradients have their place before training starts"
    return parameter.grad
