"""Norms, directions, cosines and inner products: exact in float64, or fast enough for every layer of every step.

`norm`, `norms_of` and `inner_product` are the fast ones. On the CPU their result is a Python number, which costs less
than keeping a tensor. There float32 is summed in float32, and recomputed in float64 only if the result is so small or
so large that squares may have left the range of float32. On an accelerator it stays a tensor, because reading it would
wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kymograph._shapes import Float, Shaped

vector_norm: Callable[..., Tensor] = torch.linalg.vector_norm
_dot, _sqrt, _float32 = torch.dot, math.sqrt, torch.float32
_NARROW = (torch.float16, torch.bfloat16)
_SMALLEST, _LARGEST = 1e-24, 1e30
"""Between these a sum of float32 products is accurate: what underflows is below 1e-38, and 1e8 of it below 1e-30."""
_SHORTEST, _LONGEST = _SMALLEST**0.5, _LARGEST**0.5
_FEW = 32_768
"""Up to this many entries `vector_norm` is as fast as a flat view and its dot product, and accurate to 1e-6."""


def as_float64(tensor: Shaped[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Returns ``tensor`` in float64 and without its graph, on the CPU where the device has no float64."""
    tensor = tensor.detach()
    return tensor.cpu().double() if tensor.device.type == "mps" else tensor.double()


def norms(vectors: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """Returns the L2 norm of each of ``vectors`` (..., d), in float64.

    >>> norms(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    return vector_norm(as_float64(vectors), dim=-1)


def directions(vectors: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Returns each of ``vectors`` (..., d) scaled to length 1, in float64; NaN where it has no direction.

    A vector is divided by its largest entry first, so that one of norm 1e-30 keeps its direction. One that is zero or
    not finite has none and gives NaN, for the caller to count.

    >>> directions(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [nan, nan]]
    """
    vectors = as_float64(vectors)
    largest = vectors.abs().amax(-1, keepdim=True)
    scaled: Tensor = vectors / torch.where((largest > 0) & largest.isfinite(), largest, torch.nan)
    return scaled / vector_norm(scaled, dim=-1, keepdim=True)


def cosine(a: Float[Tensor, "*batch d"], b: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """Returns the cosine between vectors ``a`` and ``b`` (..., d), in float64; NaN where it is not defined.

    Parallel vectors of norm 1e-30 have cosine 1. A vector that is zero or not finite has no direction and gives
    NaN, for the caller to count.

    >>> round(float(cosine(torch.tensor([3e-30, 4e-30]), torch.tensor([3.0, 4.0]))), 6)
    1.0
    """
    return (directions(a) * directions(b)).sum(-1).clamp(-1.0, 1.0)


def norm(tensor: Tensor) -> Tensor | float:
    """Returns the L2 norm of all entries of ``tensor``, a number if it is on the CPU; at least as accurate as float32.

    >>> [f"{norm(scale * torch.tensor([3.0, 4.0])):.4g}" for scale in (1e-30, 1.0, 1e30)]
    ['5e-30', '5', '5e+30']
    """
    if tensor.is_cpu and tensor.dtype is _float32:
        flat = tensor.dim() == 1
        if flat or tensor.numel() > _FEW:
            vector = tensor if flat else tensor.reshape(-1)
            square = _dot(vector, vector).item()
            if _SMALLEST < square < _LARGEST:
                return _sqrt(square)
        else:
            length: float = vector_norm(tensor).item()
            if _SHORTEST < length < _LONGEST:
                return length
        return float(vector_norm(tensor, dtype=torch.float64))
    if tensor.is_cpu:
        return float(vector_norm(tensor, dtype=None if tensor.is_complex() else torch.float64))
    return vector_norm(tensor, dtype=_float32) if tensor.dtype in _NARROW else vector_norm(tensor)


def norms_of(tensors: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``tensors``, which share device and dtype."""
    if not tensors or tensors[0].is_cpu or tensors[0].dtype in _NARROW:
        return [norm(tensor) for tensor in tensors]
    return torch._foreach_norm(list(tensors))


def inner_product(a: Tensor, b: Tensor) -> Tensor | float:
    """Returns the inner product of two vectors (entries,), a number if they are on the CPU.

    >>> f"{inner_product(torch.tensor([1e-30, 0.0]), torch.tensor([2e-30, 1.0])):.4g}"
    '2e-60'
    """
    if not a.is_cpu:
        return _dot(a, b)
    product = _dot(a, b).item()
    if _SMALLEST < abs(product) < _LARGEST:
        return product
    return _dot(a.double(), b.double()).item()
