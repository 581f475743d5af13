"""The loss on a fixed batch: its sharpness, and the noise of its gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph._probes.fixed_batch import FixedBatch, top_eigenpair
from kymograph._probes.norms import as_float64
from kymograph._shapes import Float

PARTS = {
    "sharpness": {
        "about": "largest eigenvalue of the Hessian of the loss on the fixed batch",
        "unit": "loss per squared unit of the weights",
        "level": "deep",
        "order": 33,
        "at": "network",
    },
    "sharpness-residual": {
        "about": "|Hv - sharpness v| / |sharpness| of the unit vector v that the sharpness was found with",
        "unit": "1",
        "level": "deep",
        "order": 34,
        "at": "network",
    },
    "gradient-noise-scale": {
        "about": "simple gradient noise scale on the fixed batch: the batch size at which noise equals signal",
        "unit": "samples",
        "level": "deep",
        "order": 32,
        "at": "network",
    },
}

BATCH_PARTS = 8  # into which the fixed batch is cut to tell the gradient from its noise


def sharpness(fixed: FixedBatch) -> float:
    """Returns the largest (not the largest absolute) eigenvalue of the Hessian over all trainable parameters.

    Computed before the step, in evaluation mode, by Lanczos iteration from the eigenvector of the previous measured
    step. `sharpness_residual` says how far it converged.
    """
    return top_eigenpair(fixed).value


def sharpness_residual(fixed: FixedBatch) -> float:
    """Returns |Hv - lambda v| / |lambda|; some eigenvalue of the Hessian lies within this share of the sharpness."""
    return top_eigenpair(fixed).residual


def gradient_noise_scale(fixed: FixedBatch) -> Tensor:
    """Returns tr(covariance of a sample's gradient) / |gradient|^2, from up to eight equal parts of the fixed batch.

    The loss must be a mean over samples. Samples that do not fill the parts are left out. NaN where the estimate of
    |gradient|^2 is not positive: the batch is too small to tell the gradient from noise.
    """
    count = min(BATCH_PARTS, fixed.samples)
    size = fixed.samples // count
    parts = [fixed.gradient(fixed.part(index * size, (index + 1) * size)) for index in range(count)]
    squares = torch.stack([part.dot(part) for part in parts])
    whole = torch.stack(parts).mean(0)
    return noise_scale(squares.mean(), whole.dot(whole), size, size * count)


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
