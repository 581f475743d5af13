"""Backpropagation on replicas by autograd: the reference for the closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kymograph.rules.base import Credit


class Backprop:
    """The exact gradient by autograd; ``loss`` maps (outputs, targets) to one loss per replica."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.loss = loss

    def backward(self, net: Any, x: Any, y: Tensor) -> Credit:
        """Fills the gradient of each replica's own loss."""
        net.flat.gradients.zero_()
        losses = self.loss(net(x), y)  # (R,)
        # Replicas share no parameter, so the gradient of the sum is every replica's own gradient.
        losses.backward(torch.ones_like(losses))
        return Credit(losses.detach())
