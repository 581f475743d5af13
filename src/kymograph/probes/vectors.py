"""Vectors in float64, the precision in which everything is measured: their norms and directions."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.shapes import Float, Shaped


def as_float64(tensor: Shaped[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Returns ``tensor`` in float64 and without its graph, on the CPU where the device has no float64."""
    tensor = tensor.detach()
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def norms(vectors: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """Returns the L2 norm of each of ``vectors`` (..., d), in float64.

    >>> norms(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    return torch.linalg.vector_norm(as_float64(vectors), dim=-1)


def directions(vectors: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Returns each of ``vectors`` (..., d) scaled to length 1, in float64; NaN where it has no direction.

    A vector is divided by its largest entry first, so that one of norm 1e-30 keeps its direction. One that is zero or
    not finite has none and gives NaN, for the caller to count.

    >>> directions(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [nan, nan]]
    """
    vectors = as_float64(vectors)
    largest = vectors.abs().amax(-1, keepdim=True)
    scaled = vectors / torch.where((largest > 0) & largest.isfinite(), largest, torch.nan)
    return scaled / torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
