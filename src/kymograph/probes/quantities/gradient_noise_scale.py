"""Gradient noise scale of the network on the fixed batch."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.fixed_batch import FixedBatch
from kymograph.probes.measures.noise_scale import noise_scale

PART = {
    "about": "simple gradient noise scale on the fixed batch: the batch size at which noise equals signal",
    "unit": "samples",
    "level": "deep",
    "order": 32,
    "at": "network",
}
PARTS = 8


def gradient_noise_scale(fixed: FixedBatch) -> Tensor:
    """Returns tr(covariance of a sample's gradient) / |gradient|^2, from up to eight equal parts of the fixed batch.

    The loss must be a mean over samples. Samples that do not fill the parts are left out. NaN where the estimate of
    |gradient|^2 is not positive: the batch is too small to tell the gradient from noise.
    """
    count = min(PARTS, fixed.samples)
    size = fixed.samples // count
    parts = [fixed.gradient(fixed.part(index * size, (index + 1) * size)) for index in range(count)]
    squares = torch.stack([part.dot(part) for part in parts])
    whole = torch.stack(parts).mean(0)
    return noise_scale(squares.mean(), whole.dot(whole), size, size * count)
