"""Errors and gradients of different images, paired at random."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs

PART = {"label": "images shuffled", "about": "errors and gradients of different images", "order": 4}


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws)."""
    return torch.stack(
        [
            pair.shuffled_cosines(matrices[index], draws, streams.generator(seed, "null", "samples", str(point)))
            for point, (pair, index) in enumerate(zip(pairs, serving, strict=True))
        ]
    )
