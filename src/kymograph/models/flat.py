"""The parameters of R replicas as the rows of one matrix, with named views of it.

One row is one network. What acts on whole networks (clipping, optimizer, norms) is then a single operation on a
matrix, and replica r never meets replica s. Gradients live in a second matrix of the same shape, which autograd
fills through the views' ``.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class FlatParameters:
    """A (replicas, parameters) matrix of weights, one of gradients, and a ``nn.Parameter`` view per name."""

    def __init__(self, shapes: Mapping[str, Sequence[int]], replicas: int, device: torch.device | str = "cpu") -> None:
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self.values = torch.zeros(replicas, sum(sizes.values()), device=device)  # (R, P)
        self.gradients = torch.zeros_like(self.values)  # (R, P)
        self.views: dict[str, nn.Parameter] = {}
        self.gradient_views: dict[str, Tensor] = {}
        start = 0
        for name, shape in shapes.items():
            stop = start + sizes[name]
            view = nn.Parameter(self.values[:, start:stop].view(replicas, *shape))  # shares the matrix's memory
            view.grad = self.gradients[:, start:stop].view(replicas, *shape)
            self.views[name], self.gradient_views[name] = view, view.grad
            start = stop

    @property
    def replicas(self) -> int:
        """How many networks the matrix holds."""
        return self.values.shape[0]

    def fill(self, replica: int, tensors: Mapping[str, Tensor]) -> None:
        """Sets every parameter of one replica."""
        if tensors.keys() != self.views.keys():
            raise ValueError(f"expected parameters {sorted(self.views)}, got {sorted(tensors)}")
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.views[name][replica] = tensor.to(self.values.device)
