"""The gradients of layer-by-layer feedback a second time, by plain autograd on another expression.

A product of value W x and gradient B^T g is ``W stop(x) + B x - stop(B x)``: two products instead of one, so no way to
train, but there is no backward pass in it that could be wrong.
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
