"""A network, a loss and a fixed batch: gradients, Hessian-vector products and the Hessian's largest eigenvalue."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map_only

from kymograph._errors import KymographError
from kymograph._probes.layers import evaluation_mode
from kymograph._shapes import Float
from kymograph._streams import forked_generators, generator

Loss = Callable[[nn.Module, Any], Tensor]


class FixedBatch:
    """The input of a quantity of the whole network.

    A quantity may keep ``state`` from one measured step to the next, e.g. a vector to start from: tensors, numbers and
    dictionaries of them, which are saved so that a killed run can resume.
    """

    def __init__(self, model: nn.Module, loss: Loss, batch: Any) -> None:
        self.model, self.loss, self.batch = model, loss, batch
        self.state: dict[str, Any] = {}
        self.step = 0

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The trainable parameters; Hessian and gradient are over all of them, in this order."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @property
    def samples(self) -> int:
        """The number of samples: the leading axis that all tensors of the batch share."""
        sizes = {leaf.shape[0] if leaf.dim() else 0 for leaf in tree_leaves(self.batch) if isinstance(leaf, Tensor)}
        if len(sizes) != 1 or 0 in sizes or 1 in sizes:
            raise KymographError("the batch cannot be split; give tensors that share one leading axis of at least 2")
        return sizes.pop()

    def part(self, start: int, end: int) -> Any:
        """Returns samples ``start`` up to ``end`` of the batch."""
        return tree_map_only(Tensor, lambda leaf: leaf[start:end], self.batch)

    def gradient(self, batch: Any) -> Tensor:
        """Returns the gradient of the loss on ``batch`` as one float64 vector (parameters,); 0 where there is none."""
        with undisturbed(self.model):
            return self._flat(self._slopes(batch, create_graph=False)).double()

    @contextmanager
    def hessian(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yields a function: the product of the Hessian on the batch with a vector (parameters,), from one graph."""
        with undisturbed(self.model):
            slopes = self._slopes(self.batch, create_graph=True)
            differentiable = [slope is not None and slope.requires_grad for slope in slopes]
            used = [slope for slope in slopes if slope is not None and slope.requires_grad]
            sizes = [parameter.numel() for parameter in self.parameters]

            def product(vector: Tensor) -> Tensor:
                pieces = [
                    piece.view_as(parameter).to(parameter)
                    for piece, parameter in zip(vector.split_with_sizes(sizes), self.parameters, strict=True)
                ]
                along = list(itertools.compress(pieces, differentiable))
                if not used:  # the loss is linear in the parameters
                    return torch.zeros_like(vector)
                images = torch.autograd.grad(used, self.parameters, along, retain_graph=True, allow_unused=True)
                if all(image is None for image in images):  # a custom function that can be differentiated only once
                    raise RuntimeError("the gradient cannot be differentiated a second time")
                return self._flat(images).double()

            yield product

    def walk(self) -> None:
        """Runs one forward and backward pass on the batch, for the attached hooks."""
        with undisturbed(self.model):
            self._slopes(self.batch, create_graph=False)

    def _slopes(self, batch: Any, create_graph: bool) -> tuple[Tensor | None, ...]:
        loss = self.loss(self.model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise KymographError("loss(model, batch) must return a tensor with one entry")
        # never `backward`: it adds to .grad, and with create_graph makes a reference cycle of graph and parameters
        return torch.autograd.grad(loss.sum(), self.parameters, create_graph=create_graph, allow_unused=True)

    def _flat(self, tensors: tuple[Tensor | None, ...]) -> Tensor:
        """Returns all tensors as one vector, on the device of the first parameter; zeros for None."""
        pieces = []
        for tensor, parameter in zip(tensors, self.parameters, strict=True):
            dense = torch.zeros_like(parameter) if tensor is None else tensor.to_dense() if tensor.is_sparse else tensor
            pieces.append(dense.detach().flatten().to(self.parameters[0].device))
        return torch.cat(pieces)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Runs a block with ``model`` eager and in evaluation mode, then restores modes, buffers and random generators."""
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with ExitStack() as stack:
        stack.enter_context(forked_generators((*model.parameters(), *model.buffers())))
        stack.enter_context(evaluation_mode(model))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # the other backends have no second derivative
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


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
        residual = error / abs(value) if abs(value) > 0 else 0.0 if error == 0 else float("inf")
        pair = TopEigenpair(value, vector / torch.linalg.vector_norm(vector), residual)
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


def top_eigenpair(fixed: FixedBatch) -> TopEigenpair:
    """Returns the top eigenpair of the Hessian on the fixed batch, computed once per step and warm-started."""
    last = fixed.state.get("top eigenpair")
    if last is not None and last["step"] == fixed.step:
        return TopEigenpair(last["value"], last["vector"], last["residual"])
    size = sum(parameter.numel() for parameter in fixed.parameters)
    home = fixed.parameters[0].device
    start = _random(size) if last is None or last["vector"].numel() != size else last["vector"]
    with fixed.hessian() as product:
        pair = largest_eigenpair(product, start.to(home))
    vector = pair.vector if bool(pair.vector.isfinite().all()) else _random(size).to(home)
    fixed.state["top eigenpair"] = {
        "step": fixed.step, "value": pair.value, "vector": vector, "residual": pair.residual,
    }  # fmt: skip
    return TopEigenpair(pair.value, vector, pair.residual)


def _random(size: int) -> Tensor:
    return torch.randn(size, generator=generator(0, "sharpness"), dtype=torch.float64)
