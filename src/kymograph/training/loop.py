"""The training loop, shared by all studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kymograph.rules.base import Rule
from kymograph.training.update import Update


@dataclass(slots=True)
class Step:
    """One step just taken, by all replicas together; every tensor has shape (R,) and stays on its device."""

    index: int
    loss: Tensor  # on the weights before the step
    grad_norm: Tensor | None  # before clipping; None if the update does not need it
    clipped: Tensor | None  # whether clipping changed the gradient; None without clipping


def train(batches: Iterable[tuple[Any, Any]], rule: Rule, update: Update, first: int = 0) -> Iterator[Step]:
    """Trains the rule's network and yields after every step, so that the caller can measure between steps.

        flat = FlatNetwork(net)
        for step in train(batches, make("bp", net), Update(Sgd(flat, lr=0.1))):
            losses.append(step.loss)

    The network may be a single one or many replicas with a leading axis: the loop treats both alike. ``first`` is the
    index of the first step when training resumes.
    """
    update.optimizer.flat.attach()
    rule.attach(update.optimizer)
    for index, (x, y) in enumerate(batches, first):
        credit = rule.backward(x, y, accumulate=False)
        rule.before_update()
        grad_norm, clipped = update()
        rule.after_update(index)
        yield Step(index, credit.loss, grad_norm, clipped)
