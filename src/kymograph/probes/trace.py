"""Weights tracked through every step: their norm, and how far each step actually moved them."""

from __future__ import annotations

import torch
from torch import Tensor


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
