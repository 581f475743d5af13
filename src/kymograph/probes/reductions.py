"""Norms and inner products of tensors, fast enough to be taken at every layer of every step.

On the CPU a reading becomes a Python number at once, which costs less than keeping a tensor. There float32 is summed in
float32, and recomputed in float64 only if the result is so small or so large that squares may have left the range of
float32. On an accelerator a reading stays a tensor, because reading it would wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_dot, _vector_norm, _sqrt = torch.dot, torch.linalg.vector_norm, math.sqrt
_NARROW = (torch.float16, torch.bfloat16)
_SMALLEST, _LARGEST = 1e-24, 1e30
"""Between these a sum of float32 products is accurate: what underflows is below 1e-38, and 1e8 of it below 1e-30."""
_SHORTEST, _LONGEST = _SMALLEST**0.5, _LARGEST**0.5
_FEW = 32_768
"""Up to this many entries `vector_norm` is as fast as a flat view and its dot product, and accurate to 1e-6."""
_float32 = torch.float32


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
            length = _vector_norm(tensor).item()
            if _SHORTEST < length < _LONGEST:
                return length
        return float(_vector_norm(tensor, dtype=torch.float64))
    if tensor.is_cpu:
        return float(_vector_norm(tensor, dtype=None if tensor.is_complex() else torch.float64))
    return _vector_norm(tensor, dtype=_float32) if tensor.dtype in _NARROW else _vector_norm(tensor)


def norms_of(tensors: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``tensors``, which share device and dtype."""
    if not tensors or tensors[0].is_cpu or tensors[0].dtype in _NARROW:
        return [norm(tensor) for tensor in tensors]
    return torch._foreach_norm(list(tensors))


def inner_product(one: Tensor, other: Tensor) -> Tensor | float:
    """Returns the inner product of two vectors (entries,), a number if they are on the CPU.

    >>> f"{inner_product(torch.tensor([1e-30, 0.0]), torch.tensor([2e-30, 1.0])):.4g}"
    '2e-60'
    """
    if not one.is_cpu:
        return _dot(one, other)
    product = _dot(one, other).item()
    if _SMALLEST < abs(product) < _LARGEST:
        return product
    return _dot(one.double(), other.double()).item()
