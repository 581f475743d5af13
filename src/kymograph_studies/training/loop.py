"""The training loop, and what lies between gradients and weights: schedule, clipping, update.

Clipping is outside every learning rule. Gradients are the rows of a matrix (R, P). A replica without clipping has the
threshold infinity, for which every formula below is exactly the identity on finite gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from kymograph_studies.rules.base import Rule
from kymograph_studies.training.optimizers import Optimizer


def cosine_to_zero(lr: float, epoch: int, epochs: int) -> float:
    """Returns the learning rate of ``epoch`` (from 0) on a half cosine that would reach 0 after ``epochs``."""
    return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2


class Clip(Protocol):
    """Clips gradients in place and reports which replicas were clipped."""

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Clips ``gradients`` (R, P) whose row norms are ``norms`` (R,); returns which rows changed, (R,) bool."""
        ...


class ClipByNorm:
    """Scales a row down to ``max_norm`` if it is longer (Pascanu, Mikolov and Bengio, 2013)."""

    def __init__(self, max_norm: Tensor) -> None:
        self.max_norm = max_norm  # (R,)

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Multiplies each row by min(1, max_norm / norm); no epsilon, so a norm at the threshold stays untouched."""
        assert norms is not None
        gradients.mul_((self.max_norm / norms).clamp_(max=1.0)[:, None])
        return norms > self.max_norm


class ClipByValue:
    """Clamps every entry of a row to [-limit, limit]."""

    def __init__(self, limit: Tensor) -> None:
        self.limit = limit[:, None]  # (R, 1)

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Clamps in place; a row changed if its largest entry was beyond the limit."""
        beyond: Tensor = torch.linalg.vector_norm(gradients, ord=torch.inf, dim=1) > self.limit[:, 0]
        torch.clamp(gradients, -self.limit, self.limit, out=gradients)
        return beyond


class ClipByPercentile:
    """Scales a row down to a percentile of its own recent norms (AutoClip, Seetharaman et al., 2020).

    The window holds the unclipped norms of the last ``window`` steps before this one; until it is half full,
    nothing is clipped.
    """

    def __init__(self, percentile: Tensor, window: int) -> None:
        self._rows = percentile.isfinite().nonzero()[:, 0]
        self._quantile = percentile[self._rows] / 100.0
        self._past = percentile.new_empty(len(self._rows), window)
        self._seen = 0

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Clips the adaptive rows against their own past, then stores this step's norms."""
        window = self._past.shape[1]
        assert norms is not None
        fired = torch.zeros_like(norms, dtype=torch.bool)
        current = norms[self._rows]
        if self._seen >= window // 2:
            ordered = self._past[:, : min(self._seen, window)].sort(dim=1).values
            rank = (self._quantile * (ordered.shape[1] - 1)).round().long()
            threshold = ordered.gather(1, rank[:, None])[:, 0]
            gradients[self._rows] *= (threshold / current).clamp(max=1.0)[:, None]
            fired[self._rows] = current > threshold
        self._past[:, self._seen % window] = current
        self._seen += 1
        return fired


class ClipParts:
    """Scales each named part of a single network down to ``max_norm`` on its own, e.g. block by block."""

    def __init__(self, spans: Sequence[slice], max_norm: float) -> None:
        self._spans, self._max_norm = spans, max_norm
        # Adjacent parts of one size are the rows of a matrix: two calls clip them all.
        self._are_rows = bool(spans) and all(
            span.start == before.stop and span.stop - span.start == before.stop - before.start
            for before, span in pairwise(spans)
        )

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Clips the parts of the only row; returns whether any was clipped, (1,) bool."""
        if self._are_rows:
            parts = [gradients[0, self._spans[0].start : self._spans[-1].stop].view(len(self._spans), -1)]
        else:
            parts = [gradients[0, span][None] for span in self._spans]
        fired = torch.zeros(1, dtype=torch.bool, device=gradients.device)
        for rows in parts:
            lengths = torch.linalg.vector_norm(rows, dim=1)
            rows.mul_((self._max_norm / lengths).clamp_(max=1.0)[:, None])
            fired |= (lengths > self._max_norm).any()
        return fired


class Update:
    """Clips the gradients, then takes a step of the optimizer.

    Args:
        norms: whether the gradient norms before clipping are needed, by the caller or by a clip.
    """

    def __init__(self, optimizer: Optimizer, clips: Sequence[Clip] = (), norms: bool = False) -> None:
        self.optimizer, self._clips, self._norms = optimizer, clips, norms

    def __call__(self) -> tuple[Tensor | None, Tensor | None]:
        """Updates every replica; returns norms before clipping, if requested, and which were clipped, (R,) each."""
        gradients = self.optimizer.flat.gradients
        norms = torch.linalg.vector_norm(gradients, dim=1) if self._norms else None
        clipped: Tensor | None = None
        for clip in self._clips:
            fired = clip(gradients, norms)
            clipped = fired if clipped is None else clipped | fired
        self.optimizer.step()
        return norms, clipped


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


class WeightTrace:
    """Copies the weight matrix after every step and reduces the copies a block at a time, in float64.

    Training waits only for one copy per step. The norms of a whole block are then two operations, in memory that is
    allocated once: fresh pages would cost more than the arithmetic.
    """

    def __init__(self, values: Tensor, keep_every: int, block: int = 50) -> None:
        self._values = values  # (R, P), read only
        self._keep_every = keep_every
        self._buffer = values.new_empty(block + 1, *values.shape)
        self._buffer[0].copy_(values)
        self._slots = self._buffer.unbind(0)
        exact = torch.float32 if values.device.type == "mps" else torch.float64  # mps has no float64
        self._exact = torch.empty_like(self._buffer, dtype=exact)
        self._change = torch.empty_like(self._exact[1:])
        self._filled = 0
        self._step = 0
        self._norms: list[Tensor] = []
        self._moves: list[Tensor] = []
        self._kept: list[Tensor] = []

    def record(self) -> None:
        """Records the weights after the step just taken."""
        if self._step % self._keep_every == 0:
            self._kept.append(self._values.clone())
        self._step += 1
        self._filled += 1
        self._slots[self._filled].copy_(self._values)
        if self._filled == len(self._slots) - 1:
            self._reduce()

    def norms(self) -> Tensor:
        """Returns the weight norm after every step, shape (steps, R), float64."""
        self._reduce()
        return torch.cat(self._norms)

    def moves(self) -> Tensor:
        """Returns the measured length of every step, ||w_after - w_before||, shape (steps, R), float64."""
        self._reduce()
        return torch.cat(self._moves)

    def kept(self) -> Tensor:
        """Returns the weights after steps 0, k, 2k, ... for k = ``keep_every``, shape (kept, R, P)."""
        return torch.stack(self._kept)

    def _reduce(self) -> None:
        if self._filled == 0:
            return
        states = self._exact[: self._filled + 1].copy_(self._buffer[: self._filled + 1])
        change = torch.sub(states[1:], states[:-1], out=self._change[: self._filled])
        self._norms.append(torch.linalg.vector_norm(states[1:], dim=-1).cpu().double())
        self._moves.append(torch.linalg.vector_norm(change, dim=-1).cpu().double())
        self._slots[0].copy_(self._slots[self._filled])
        self._filled = 0
