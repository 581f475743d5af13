"""Gradient clipping, per replica, outside every learning rule.

Gradients are the rows of a matrix (R, P). A replica without clipping has the threshold infinity, for which
every formula below is exactly the identity on finite gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor


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
        beyond = torch.linalg.vector_norm(gradients, ord=torch.inf, dim=1) > self.limit[:, 0]
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
