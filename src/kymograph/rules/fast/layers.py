"""Linear layers and LayerNorms with their derivatives written out; gradients are written directly to ``.grad``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.shapes import Float

_norm_back = torch.ops.aten.native_layer_norm_backward
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
    at_input: Tensor
    at_input, weight, bias = _norm_back(signal, h, shape, mean, rstd, norm.weight, norm.bias, [True, fill, fill])
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
