"""The one training loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kymograph.rules.base import Rule
from kymograph.training.updates import Update


@dataclass(slots=True)
class Step:
    """One step just taken, by all replicas together; every tensor has shape (R,) and stays on its device."""

    index: int
    loss: Tensor  # on the weights before the step
    grad_norm: Tensor | None  # before clipping; None if the update does not need it
    clipped: Tensor | None  # whether clipping changed the gradient; None without clipping


def train(net: Any, batches: Iterable[tuple[Any, Any]], rule: Rule, update: Update) -> Iterator[Step]:
    """Trains ``net`` and yields after every step; measuring is what the caller does between steps.

        for step in train(net, batches, ClosedForm(), Update(Sgd(lr))):
            losses.append(step.loss)

    ``net`` may be one network or many replicas with a leading axis: the loop does not know the difference.
    """
    for index, (x, y) in enumerate(batches):
        credit = rule.backward(net, x, y)
        grad_norm, clipped = update(net.flat)
        yield Step(index, credit.loss, grad_norm, clipped)
