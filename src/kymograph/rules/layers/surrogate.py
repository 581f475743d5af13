"""Derives the gradients of layer-by-layer feedback a second time, by plain autograd on another expression.

``W stop(x) + B x - stop(B x)`` has the value W x and the gradient B^T g. It takes two products instead of one, so it is
not used for training, but it has no backward pass of its own that could be wrong.
"""

from __future__ import annotations

from torch import Tensor

from kymograph.rules.layers.carrying import Carrying, Operation, Swapped


class Surrogate(Carrying):
    """Replaces every product with a weight by the expression above."""

    def swapped(
        self, plain: Operation, x: Tensor, weight: Tensor, bias: Tensor | None, feedback: Tensor, swapped: Swapped
    ) -> Tensor:
        """Returns the product as a sum of ordinary ones."""
        carried = plain(x, feedback, None)
        return plain(x.detach(), weight, bias) + carried - carried.detach()
