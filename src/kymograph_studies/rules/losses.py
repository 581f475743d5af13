"""Losses: one value per replica from outputs and targets, and their gradient at the outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph._shapes import Float, Int
from kymograph_studies.models.replicas import TokenTargets

Loss = Callable[[Tensor, Any], Tensor]
"""Maps (outputs, targets) to the mean loss over the batch: a scalar, or one value per replica, (R,)."""


def cross_entropy(logits: Float[Tensor, "batch classes"], y: Int[Tensor, " batch"]) -> Float[Tensor, " 1"]:
    """Returns the mean cross-entropy of a single network."""
    return nn.functional.cross_entropy(logits, y)[None]


def replica_cross_entropy(
    logits: Float[Tensor, "replicas batch classes"], targets: TokenTargets
) -> Float[Tensor, " replicas"]:
    """Returns each replica's mean cross-entropy."""
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), targets.index, reduction="none")
    return losses.view(len(logits), -1).mean(1)


def replica_squared_error(
    outputs: Float[Tensor, "replicas batch width"], targets: Float[Tensor, "replicas batch width"]
) -> Float[Tensor, " replicas"]:
    """Returns each replica's mean squared error over batch and features."""
    return (outputs - targets).square().mean(dim=(1, 2))


def output_error(logits: Float[Tensor, "batch classes"], y: Int[Tensor, " batch"]) -> Float[Tensor, "batch classes"]:
    """Returns each sample's gradient of its own cross-entropy at the logits, softmax(z) - onehot(y)."""
    error = logits.detach().softmax(-1)
    error[torch.arange(len(y), device=y.device), y] -= 1.0
    return error


def error_of(
    loss: Loss, outputs: Float[Tensor, "batch *positions outputs"], y: Any
) -> Float[Tensor, "batch *positions outputs"]:
    """Returns each sample's (and position's) gradient of its own loss at the outputs, for a loss that is their mean."""
    if loss is cross_entropy:
        return output_error(outputs, y)
    with torch.enable_grad():
        outputs = outputs.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(outputs, y).sum(), outputs)
    return gradient * rows_of(outputs)


def rows_of(outputs: Tensor) -> int:
    """Returns how many output vectors there are: one per sample, or per sample and position."""
    return outputs.shape[:-1].numel()


def target_of(outputs: Tensor, y: Any) -> Tensor:
    """Returns the target outputs: one-hot vectors of class indices, or targets of the outputs' own shape."""
    if isinstance(y, Tensor) and not y.is_floating_point() and y.shape == outputs.shape[:-1]:
        return torch.zeros_like(outputs).scatter_(-1, y.unsqueeze(-1), 1.0)
    if isinstance(y, Tensor) and y.shape == outputs.shape:
        return y.to(outputs.dtype)
    raise KymographError(
        f"targets must be class indices of shape {tuple(outputs.shape[:-1])}, or have the same shape as the outputs"
    )
