"""Norms of tensors as they come, fast enough to be taken at every layer of every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_vector_norm = torch.linalg.vector_norm
_NARROW = (torch.float16, torch.bfloat16)


def norm(tensor: Tensor) -> Tensor:
    """Returns the L2 norm of all entries of ``tensor``; of half precision in float32.

    It is taken in the tensor's own precision. Squares of float32 lose digits where the norm is below 1e-19, and a norm
    below 1e-22 reads 0.
    """
    return _vector_norm(tensor, dtype=torch.float32) if tensor.dtype in _NARROW else _vector_norm(tensor)


def norms_of(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns the L2 norm of each of ``tensors``, which are on one device."""
    if any(tensor.dtype in _NARROW for tensor in tensors):
        return [norm(tensor) for tensor in tensors]
    return torch._foreach_norm(list(tensors))
