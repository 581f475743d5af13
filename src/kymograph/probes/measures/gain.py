"""Gain per layer: the factor by which a norm grows from one layer to the next."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float
from kymograph.statistics.intervals import t_quantile

PART = {"about": "factor by which a norm grows per layer, with its 95 % interval", "unit": "factor per layer"}


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
