"""From gradients to weights: clipping and optimizers, per replica, outside every learning rule.

Gradients are the rows of a matrix (R, P). A replica that is not to be clipped has the threshold infinity, for
which every formula below is exactly the identity on finite gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from kymograph.models.blocks import FlatNetwork
from kymograph.models.flat import FlatParameters


class Clip(Protocol):
    """Shortens gradients in place and says for which replicas it did."""

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
        """Clips the adaptive rows against their own past, then remembers this step's norms."""
        window = self._past.shape[1]
        assert norms is not None
        fired = torch.zeros_like(norms, dtype=torch.bool)
        mine = norms[self._rows]
        if self._seen >= window // 2:
            ordered = self._past[:, : min(self._seen, window)].sort(dim=1).values
            place = (self._quantile * (ordered.shape[1] - 1)).round().long()
            threshold = ordered.gather(1, place[:, None])[:, 0]
            gradients[self._rows] *= (threshold / mine).clamp(max=1.0)[:, None]
            fired[self._rows] = mine > threshold
        self._past[:, self._seen % window] = mine
        self._seen += 1
        return fired


class ClipParts:
    """Scales each named part of a single network down to ``max_norm`` on its own, e.g. block by block."""

    def __init__(self, spans: Sequence[slice], max_norm: float) -> None:
        self._spans, self._max_norm = spans, max_norm
        # Parts of one size that follow one another are the rows of a matrix: two calls for all of them.
        self._are_rows = bool(spans) and all(
            span.start == before.stop and span.stop - span.start == before.stop - before.start
            for before, span in pairwise(spans)
        )

    def __call__(self, gradients: Tensor, norms: Tensor | None) -> Tensor:
        """Clips the parts of the one row; says whether any was clipped."""
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


class Optimizer(Protocol):
    """Moves weights along the negative gradient."""

    def step(self, flat: Any) -> None:
        """Changes ``flat.values`` in place from ``flat.gradients``."""
        ...


class Sgd:
    """Plain gradient descent with a learning rate per replica."""

    def __init__(self, lr: Tensor) -> None:
        self._negative_lr = -lr[:, None]  # (R, 1)

    def step(self, flat: FlatParameters) -> None:
        """w <- w - lr * g."""
        flat.values.addcmul_(flat.gradients, self._negative_lr)


class Adam:
    """Adam (Kingma and Ba, 2015) with torch's defaults, fused over all parameters of all replicas.

    torch's functional form: the class `torch.optim.Adam` would import the compiler, a second and more of start-up.
    """

    def __init__(self, flat: FlatParameters, lr: float) -> None:
        self._lr = lr
        self._mean, self._square = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self._steps = torch.zeros((), device=flat.values.device)

    @torch.no_grad()
    def step(self, flat: FlatParameters) -> None:
        """Takes one Adam step."""
        adam(
            [flat.values],
            [flat.gradients],
            [self._mean],
            [self._square],
            [],
            [self._steps],
            fused=True,
            foreach=False,
            capturable=False,
            differentiable=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._lr,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


class AdamW:
    """AdamW (Loshchilov and Hutter, 2019) on the trained parts of a single network; `lr` may be set at any time."""

    def __init__(self, flat: FlatNetwork, lr: float, weight_decay: float, trained: Sequence[slice]) -> None:
        self.lr, self._decay, self._trained = lr, weight_decay, trained
        self.mean, self.square = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self.steps = torch.zeros(len(trained), device=flat.values.device)

    @torch.no_grad()
    def step(self, flat: Any) -> None:
        """Takes one step; parts that are not trained do not decay either."""
        values, gradients, means, squares = (
            [matrix[0, span] for span in self._trained]
            for matrix in (flat.values, flat.gradients, self.mean, self.square)
        )
        adamw(
            values,
            gradients,
            means,
            squares,
            [],
            list(self.steps.unbind()),
            fused=True,
            foreach=False,
            capturable=False,
            differentiable=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=self._decay,
            eps=1e-8,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors that a resumed run must get back."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}


class PlainSgd:
    """Gradient descent with weight decay on the trained parts of a single network; `lr` may be set at any time."""

    def __init__(self, lr: float, weight_decay: float, trained: Sequence[slice]) -> None:
        self.lr, self._decay, self._trained = lr, weight_decay, trained

    @torch.no_grad()
    def step(self, flat: Any) -> None:
        """w <- w - lr (g + decay w)."""
        for span in self._trained:
            values = flat.values[0, span]
            values.mul_(1 - self.lr * self._decay).add_(flat.gradients[0, span], alpha=-self.lr)

    def state(self) -> dict[str, Tensor]:
        """Returns nothing: there is no state."""
        return {}


def cosine_to_zero(lr: float, epoch: int, epochs: int) -> float:
    """Returns the learning rate of ``epoch`` (from 0) on a half cosine that would reach 0 after ``epochs``."""
    return lr * (1 + math.cos(math.pi * epoch / epochs)) / 2


class Update:
    """Clips, then steps; returns the norms before clipping, if asked for, and which replicas were clipped."""

    def __init__(self, optimizer: Optimizer, clips: Sequence[Clip] = (), norms: bool = False) -> None:
        self._optimizer = optimizer
        self._clips = clips
        self._norms = norms

    def __call__(self, flat: Any) -> tuple[Tensor | None, Tensor | None]:
        """Updates every replica."""
        norms = torch.linalg.vector_norm(flat.gradients, dim=1) if self._norms else None
        clipped: Tensor | None = None
        for clip in self._clips:
            fired = clip(flat.gradients, norms)
            clipped = fired if clipped is None else clipped | fired
        self._optimizer.step(flat)
        return norms, clipped
