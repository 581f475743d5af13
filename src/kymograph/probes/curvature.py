"""The largest eigenvalue of a Hessian that is known by its products with vectors only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph.probes.fixed_batch import FixedBatch
from kymograph.shapes import Float
from kymograph.streams import generator

TOLERANCE, SPACE, RESTARTS = 1e-3, 16, 12


@dataclass(frozen=True)
class TopEigenpair:
    """The largest eigenvalue found, its unit vector (d,), and |Hv - value v| / |value|."""

    value: float
    vector: Tensor
    residual: float


def largest_eigenpair(
    product: Callable[[Tensor], Tensor],
    start: Float[Tensor, " d"],
    tolerance: float = TOLERANCE,
    space: int = SPACE,
    restarts: int = RESTARTS,
) -> TopEigenpair:
    """Returns the largest eigenvalue of a symmetric matrix, by restarted Lanczos iteration with full orthogonalisation.

    It stops when the residual is at most ``tolerance`` of the value, or after ``restarts`` times ``space`` products;
    the error of the value itself is then of the order of the residual squared. Unlike power iteration it does not
    mistake a large negative eigenvalue for the largest. A start that is orthogonal to the eigenvector misses it.

    >>> matrix = torch.diag(torch.tensor([1.0, 2.0, -5.0], dtype=torch.float64))
    >>> round(largest_eigenpair(lambda v: matrix @ v, torch.ones(3, dtype=torch.float64)).value, 6)
    2.0
    """
    vector = start.double() / torch.linalg.vector_norm(start.double())
    best = TopEigenpair(float("nan"), vector, float("nan"))
    for _ in range(restarts):
        best = _cycle(product, best.vector, tolerance, min(space, vector.numel()))
        if not best.residual > tolerance:  # reached, or not finite
            break
    return best


def _cycle(product: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, space: int) -> TopEigenpair:
    """Returns the best pair in the space of ``start``, H start, H^2 start, ..."""
    basis = start.new_zeros(space, start.numel())
    images = torch.zeros_like(basis)
    basis[0] = start
    for size in range(1, space + 1):
        images[size - 1] = product(basis[size - 1])
        small = basis[:size] @ images[:size].T
        if not bool(small.isfinite().all()):
            return TopEigenpair(float("nan"), start, float("nan"))
        values, vectors = torch.linalg.eigh((small + small.T) / 2)
        mix = vectors[:, -1]
        vector, image, value = mix @ basis[:size], mix @ images[:size], float(values[-1])
        error = float(torch.linalg.vector_norm(image - value * vector))
        pair = TopEigenpair(value, vector / torch.linalg.vector_norm(vector), _ratio(error, abs(value)))
        if size == space or pair.residual <= tolerance:
            break
        ahead = images[size - 1].clone()
        for _ in range(2):  # once is not enough in floating point
            ahead -= (basis[:size] @ ahead) @ basis[:size]
        length = torch.linalg.vector_norm(ahead)
        if float(length) <= torch.finfo(ahead.dtype).eps * float(torch.linalg.vector_norm(images[size - 1])):
            break  # the space holds its own images: the pair is exact in it
        basis[size] = ahead / length
    return pair


def _ratio(error: float, value: float) -> float:
    return error / value if value > 0 else (0.0 if error == 0 else float("inf"))


def top_of(fixed: FixedBatch) -> TopEigenpair:
    """Returns the top eigenpair of the Hessian on the fixed batch, computed once per step, warm-started."""
    step, pair = fixed.state.get("top eigenpair", (None, None))
    if step == fixed.step and pair is not None:
        return pair
    size = sum(parameter.numel() for parameter in fixed.parameters)
    home = fixed.parameters[0].device
    start = _random(size).to(home) if pair is None or pair.vector.numel() != size else pair.vector
    with fixed.hessian() as product:
        pair = largest_eigenpair(product, start)
    if not bool(pair.vector.isfinite().all()):
        pair = TopEigenpair(pair.value, _random(size).to(home), pair.residual)
    fixed.state["top eigenpair"] = (fixed.step, pair)
    return pair


def _random(size: int) -> Tensor:
    return torch.randn(size, generator=generator(0, "sharpness"), dtype=torch.float64)
