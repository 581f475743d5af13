"""Measures: pure functions from tensors to tensors, in float64, without absolute epsilons; undefined is NaN."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def as_float64(tensor: Tensor) -> Tensor:
    """Returns ``tensor`` in float64, on the CPU where the device has no float64."""
    tensor = tensor.detach()
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def effective_dimension(points: Tensor) -> Tensor:
    """Returns exp(entropy) of the normalised covariance spectrum of the rows of ``points`` (..., n, d).

    Singular values are divided by the largest before they are squared, so the answer depends on the shape of the
    cloud and not on its size: a cloud shrunk to 1e-6 keeps its dimension. At most min(n - 1, d); NaN if all
    points coincide.
    """
    points = as_float64(points)
    centred = points - points.mean(dim=-2, keepdim=True)
    singular = torch.linalg.svdvals(centred)  # (..., min(n, d)), largest first
    spectrum = (singular / singular[..., :1]).square()  # 0/0 = NaN where all points coincide
    return torch.special.entr(spectrum / spectrum.sum(-1, keepdim=True)).sum(-1).exp()


def largest_effective_dimension(n: int, d: int) -> int:
    """Returns the most that the effective dimension of n centred points in d dimensions can be."""
    return min(n - 1, d)


def total_variance(points: Tensor) -> Tensor:
    """Returns the trace of the covariance (n - 1 in the denominator) of the rows of ``points`` (..., n, d)."""
    return as_float64(points).var(dim=-2).sum(-1)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Returns the cosine between vectors ``a`` and ``b`` (..., d), in float64; NaN where it is not defined.

    Each vector is divided by its largest entry first, so that parallel vectors of norm 1e-30 have cosine 1. A vector
    that is zero or not finite has no direction: NaN, for the caller to count.
    """
    parts = []
    for vector in (as_float64(a), as_float64(b)):
        largest = vector.abs().amax(-1, keepdim=True)
        scaled = vector / torch.where((largest > 0) & largest.isfinite(), largest, torch.nan)
        parts.append(scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True))
    return (parts[0] * parts[1]).sum(-1).clamp(-1.0, 1.0)


def recall_per_class(predictions: Tensor, counts: Tensor) -> Tensor:
    """Returns the recall of each class, shape (..., class), from the class predicted for each token.

    Args:
        predictions: the class answered to each token, (..., token).
        counts: samples per (class, token), broadcast against (..., class, token).

    A class without samples has NaN: absent is not 0.
    """
    classes = torch.arange(counts.shape[-2], device=predictions.device)
    hit = predictions[..., None, :] == classes[:, None]  # (..., class, token)
    return (counts * hit).sum(-1) / counts.sum(-1)


def roughness(series: Tensor) -> Tensor:
    """Returns the RMS of successive differences of ``series`` (..., steps) after its linear trend is taken out.

    The standard deviation of a growing series measures growth; this measures jitter.
    """
    steps = as_float64(series).diff(dim=-1)
    return (steps - steps.mean(-1, keepdim=True)).square().mean(-1).sqrt()


def wilson_interval(successes: float, trials: float, z: float = 1.959963984540054) -> tuple[float, float]:
    """Returns the Wilson score interval (Wilson, 1927) of a proportion; NaN for no trials."""
    if trials == 0:
        return math.nan, math.nan
    p, zz = successes / trials, z * z / trials
    centre = (p + zz / 2) / (1 + zz)
    half = z / (1 + zz) * math.sqrt(p * (1 - p) / trials + zz / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def log_slope(norms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gain per layer of positive ``norms`` (..., layers) with its 95 % interval (low, high).

    The gain is exp of the least-squares slope of log norm over depth: 1 is level, 2 doubles with every layer. The
    interval is Student's t on the slope, over layers of one run; it says how well one number describes the
    depth profile. A zero or non-finite norm gives NaN.
    """
    norms = as_float64(norms)
    usable = (norms > 0) & norms.isfinite()
    logs = torch.where(usable, norms, torch.nan).log()
    n = logs.shape[-1]
    depth = torch.arange(n, dtype=torch.float64, device=logs.device)
    depth = depth - depth.mean()
    sxx = depth.square().sum()
    slope = (logs * depth).sum(-1) / sxx
    residual = logs - logs.mean(-1, keepdim=True) - slope[..., None] * depth
    error = (residual.square().sum(-1) / (n - 2) / sxx).sqrt() if n > 2 else torch.full_like(slope, torch.nan)
    half = _student_t(n - 2) * error
    return slope.exp(), (slope - half).exp(), (slope + half).exp()


def _student_t(degrees: int) -> float:
    """Returns the 97.5 % point of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975)) if degrees > 0 else math.nan
