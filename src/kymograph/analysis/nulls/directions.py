"""Random directions, drawn independently for every image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs

PART = {"label": "random directions", "about": "random directions, independent for every image", "order": 5}


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws)."""
    return torch.stack(
        [
            pair.direction_cosines(
                draws, np.random.default_rng(streams.stream_seed(seed, "null", "directions", str(point)))
            )
            for point, pair in enumerate(pairs)
        ]
    )
