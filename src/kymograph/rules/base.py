"""What a rule hands back after it has filled the gradients of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(slots=True)
class Credit:
    """The outcome of one backward pass: the loss of each replica, shape (R,), on the weights before the update."""

    loss: Tensor
    at_blocks: tuple[Tensor, ...] = ()
    """What the rule handed to each block's output in place of the gradient, (B, ...).

    Empty if that is the gradient, or if the rule did not need to write it out.
    """


class Rule(Protocol):
    """Fills the gradient of every trainable parameter of ``net`` for one batch; clips, scales and steps nothing."""

    def backward(self, net: Any, x: Any, y: Any) -> Credit:
        """Fills ``.grad`` and returns the credit."""
        ...
