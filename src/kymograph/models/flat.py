"""The parameters of R replicas in one piece of memory, with named views of it.

As a matrix, one row is one network: what acts on whole networks (clipping, norms, a rate per replica) is a single
operation, and replica r never meets replica s. As a line, parameter after parameter, each parameter of all replicas
lies together, which batched products like; what acts on every number alike (Adam) does not care. Gradients live in a
second piece of the same form, which autograd fills through the views' ``.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class FlatParameters:
    """Weights and gradients of R networks, (R, P) or (R * P,), and a ``nn.Parameter`` view (R, *shape) per name."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]],
        replicas: int,
        device: torch.device | str = "cpu",
        rows: bool = True,
    ) -> None:
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        total = sum(sizes.values())
        self.replicas = replicas
        self.values = torch.zeros((replicas, total) if rows else (replicas * total,), device=device)
        self.gradients = torch.zeros_like(self.values)
        self.views: dict[str, nn.Parameter] = {}
        self.gradient_views: dict[str, Tensor] = {}
        start = 0
        for name, shape in shapes.items():
            stop = start + sizes[name]

            def cut(memory: Tensor, first: int = start, last: int = stop, shape: Sequence[int] = shape) -> Tensor:
                part = memory[:, first:last] if rows else memory[replicas * first : replicas * last]
                return part.view(replicas, *shape)

            view = nn.Parameter(cut(self.values))  # shares the memory
            view.grad = cut(self.gradients)
            self.views[name], self.gradient_views[name] = view, view.grad
            start = stop

    def fill(self, replica: int, tensors: Mapping[str, Tensor]) -> None:
        """Sets every parameter of one replica."""
        if tensors.keys() != self.views.keys():
            raise ValueError(f"expected parameters {sorted(self.views)}, got {sorted(tensors)}")
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.views[name][replica] = tensor.to(self.values.device)
