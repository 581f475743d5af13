"""From gradients to weights: clipping, then a step of the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph.training.clipping import Clip
from kymograph.training.optimizers import Optimizer


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
