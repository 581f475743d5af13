"""Metrics: pure functions from tensors to tensors, in float64, without absolute epsilons; undefined is NaN."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph._shapes import Float, Int, Shaped
from kymograph._statistics.intervals import t_quantile
from kymograph.quantities import as_float64, norms


def class_cross_entropy(
    logits: Float[Tensor, "*batch token class"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the mean of -log(probability of the right class) over each class's samples, shape (..., class).

    Args:
        logits: logits for each token, (..., token, class).
        counts: samples per (class, token), broadcast against (..., class, token).

    A class without samples is NaN, not 0.

    >>> import torch
    >>> class_cross_entropy(torch.zeros(2, 2), torch.tensor([[3.0, 1.0], [0.0, 0.0]])).exp().tolist()
    [2.0, nan]
    """
    counts = as_float64(counts)
    losses = -as_float64(logits).log_softmax(-1).transpose(-1, -2)  # (..., class, token)
    return (counts * losses).sum(-1) / counts.sum(-1)


def class_probability(
    logits: Float[Tensor, "*batch token class"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the mean probability of the right class over each class's samples, shape (..., class).

    Args:
        logits: logits for each token, (..., token, class).
        counts: samples per (class, token), broadcast against (..., class, token).

    It is the expected recall of a classifier that samples its predictions: unlike the recall of the most probable
    class, it changes with every step. A class without samples is NaN, not 0.

    >>> import torch
    >>> class_probability(torch.zeros(2, 2), torch.tensor([[3.0, 1.0], [0.0, 0.0]])).tolist()
    [0.5, nan]
    """
    counts = as_float64(counts)
    right = as_float64(logits).softmax(-1).transpose(-1, -2)  # (..., class, token)
    return (counts * right).sum(-1) / counts.sum(-1)


def recall(
    predictions: Int[Tensor, "*batch token"], counts: Shaped[Tensor, "*#batch class token"]
) -> Float[Tensor, "*batch class"]:
    """Returns the recall of each class, shape (..., class), from the class predicted for each token.

    Args:
        predictions: the class predicted for each token, (..., token).
        counts: samples per (class, token), broadcast against (..., class, token).

    A class without samples is NaN, not 0.

    >>> recall(torch.tensor([0, 0]), torch.tensor([[3.0, 1.0], [0.0, 2.0]])).tolist()
    [1.0, 0.0]
    """
    counts = as_float64(counts)
    classes = torch.arange(counts.shape[-2], device=counts.device)
    correct = predictions.to(counts.device)[..., None, :] == classes[:, None]  # (..., class, token)
    return (counts * correct).sum(-1) / counts.sum(-1)


def effective_dimension(points: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns exp(entropy) of the normalised covariance spectrum of the rows of ``points`` (..., n, d).

    Singular values are divided by the largest before they are squared, so the result depends on the shape of the
    cloud and not on its size: a cloud shrunk to 1e-6 keeps its dimension. At most min(n - 1, d); NaN if all
    points coincide, or one is not finite.

    >>> round(float(effective_dimension(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))), 6)
    2.0
    """
    points = as_float64(points)
    centred = points - points.mean(dim=-2, keepdim=True)
    usable = centred.isfinite().all(-1).all(-1)[..., None, None]
    # (..., min(n, d)), largest first; svdvals raises on NaN
    singular = torch.linalg.svdvals(torch.where(usable, centred, 0.0))
    spectrum = (singular / singular[..., :1]).square()  # 0/0 = NaN where all points coincide
    entropy: Tensor = torch.special.entr(spectrum / spectrum.sum(-1, keepdim=True)).sum(-1)
    return entropy.exp()


def largest_effective_dimension(n: int, d: int) -> int:
    """Returns the largest possible effective dimension of n centred points in d dimensions."""
    return min(n - 1, d)


def total_variance(points: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns the trace of the covariance (n - 1 in the denominator) of the rows of ``points`` (..., n, d).

    >>> float(total_variance(torch.tensor([[0.0, 0.0], [2.0, 4.0]])))
    10.0
    """
    return as_float64(points).var(dim=-2).sum(-1)


def gain(
    norms: Float[Tensor, "*batch layers"],
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Returns the gain per layer of positive ``norms`` (..., layers) with its 95 % interval (low, high).

    The gain is exp of the least-squares slope of log norm over depth: 1 is level, 2 doubles with every layer. The
    interval is Student's t on the slope, over layers of one run; it says how well one number describes the
    depth profile. A zero or non-finite norm gives NaN.

    >>> round(float(gain(torch.tensor([1.0, 2.0, 4.0, 8.0]))[0]), 6)
    2.0
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
    half = float(t_quantile(n - 2)) * error
    return slope.exp(), (slope - half).exp(), (slope + half).exp()


def median_norm(vectors: Float[Tensor, "*batch samples d"]) -> Float[Tensor, "*batch"]:
    """Returns the median over samples of the L2 norms of ``vectors`` (..., samples, d).

    For an even number of samples it is the lower of the middle two, as in torch; NaN if one norm is NaN.

    >>> float(median_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 9.0]])))
    5.0
    """
    return norms(vectors).median(dim=-1).values


def roughness(series: Float[Tensor, "*batch steps"]) -> Float[Tensor, "*batch"]:
    """Returns the RMS of successive differences of ``series`` (..., steps) after its linear trend is removed.

    The standard deviation of a growing series measures growth; this measures jitter.

    >>> float(roughness(torch.tensor([0.0, 3.0, 4.0])))
    1.0
    """
    steps = as_float64(series).diff(dim=-1)
    return (steps - steps.mean(-1, keepdim=True)).square().mean(-1).sqrt()
