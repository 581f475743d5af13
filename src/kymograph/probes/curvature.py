"""The largest eigenvalue of a Hessian, from Hessian-vector products alone."""

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
    """The largest eigenvalue found, its unit eigenvector (d,), and |Hv - value v| / |value|."""

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

    It stops when the relative residual is at most ``tolerance``, or after ``restarts`` times ``space`` products. The
    error of the eigenvalue is of the order of the residual squared. Unlike power iteration it does not mistake a large
    negative eigenvalue for the largest. A start orthogonal to the eigenvector misses it.

    >>> matrix = torch.diag(torch.tensor([1.0, 2.0, -5.0], dtype=torch.float64))
    >>> round(largest_eigenpair(lambda v: matrix @ v, torch.ones(3, dtype=torch.float64)).value, 6)
    2.0
    """
    vector = start.double() / torch.linalg.vector_norm(start.double())
    best = TopEigenpair(float("nan"), vector, float("nan"))
    for _ in range(restarts):
        best = _cycle(product, best.vector, tolerance, min(space, vector.numel()))
        if not best.residual > tolerance:  # converged, or not finite
            break
    return best


def _cycle(product: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, space: int) -> TopEigenpair:
    """Returns the best pair in the Krylov space of ``start``, H start, H^2 start, ..."""
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
            break  # the Krylov space is invariant: the pair is exact in it
        basis[size] = ahead / length
    return pair


def _ratio(error: float, value: float) -> float:
    return error / value if value > 0 else (0.0 if error == 0 else float("inf"))


def top_eigenpair(fixed: FixedBatch) -> TopEigenpair:
    """Returns the top eigenpair of the Hessian on the fixed batch, computed once per step and warm-started."""
    known = fixed.state.get("top eigenpair")
    if known is not None and known["step"] == fixed.step:
        return TopEigenpair(known["value"], known["vector"], known["residual"])
    size = sum(parameter.numel() for parameter in fixed.parameters)
    home = fixed.parameters[0].device
    start = _random(size) if known is None or known["vector"].numel() != size else known["vector"]
    with fixed.hessian() as product:
        pair = largest_eigenpair(product, start.to(home))
    vector = pair.vector if bool(pair.vector.isfinite().all()) else _random(size).to(home)
    fixed.state["top eigenpair"] = {
        "step": fixed.step, "value": pair.value, "vector": vector, "residual": pair.residual,
    }  # fmt: skip
    return TopEigenpair(pair.value, vector, pair.residual)


def _random(size: int) -> Tensor:
    return torch.randn(size, generator=generator(0, "sharpness"), dtype=torch.float64)
