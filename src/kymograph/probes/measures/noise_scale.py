"""Gradient noise scale from the squared norms of gradients at two batch sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float

PART = {"about": "tr(covariance) / |gradient|^2 from squared gradient norms at two batch sizes", "unit": "samples"}


def noise_scale(
    small: Float[Tensor, "*batch"], large: Float[Tensor, "*batch"], n_small: int, n_large: int
) -> Float[Tensor, "*batch"]:
    """Returns the simple noise scale tr(S) / |G|^2 (McCandlish et al., 2018, appendix A).

    ``small`` and ``large`` are mean squared gradient norms over batches of ``n_small`` and ``n_large`` samples.
    Numerator and denominator are both unbiased. NaN where the estimate of |G|^2 is 0 or below, which noise can cause;
    it is never clamped.

    >>> float(noise_scale(torch.tensor(5.0), torch.tensor(2.0), 1, 4))  # |G|^2 = 1, tr(S) = 4
    4.0
    """
    small, large = as_float64(small), as_float64(large)
    signal = (n_large * large - n_small * small) / (n_large - n_small)
    noise = (small - large) / (1.0 / n_small - 1.0 / n_large)
    return noise / torch.where(signal > 0, signal, torch.nan)
