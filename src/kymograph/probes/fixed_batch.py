"""A network, a loss and a fixed batch: gradients and Hessian-vector products without side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map_only

from kymograph.errors import KymographError
from kymograph.models.blocks import evaluation_mode
from kymograph.streams import forked_generators

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
            slopes = [None if one is None or not one.requires_grad else one for one in self._slopes(self.batch, True)]
            used = [slope for slope in slopes if slope is not None]
            sizes = [parameter.numel() for parameter in self.parameters]

            def product(vector: Tensor) -> Tensor:
                pieces = [
                    piece.view_as(parameter).to(parameter)
                    for piece, parameter in zip(vector.split(sizes), self.parameters, strict=True)
                ]
                along = [piece for piece, slope in zip(pieces, slopes, strict=True) if slope is not None]
                if not used:  # the loss is linear in the parameters
                    return torch.zeros_like(vector)
                found = torch.autograd.grad(used, self.parameters, along, retain_graph=True, allow_unused=True)
                if all(one is None for one in found):  # a custom function that can be differentiated only once
                    raise RuntimeError("the gradient cannot be differentiated a second time")
                return self._flat(found).double()

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
        home = self.parameters[0].device
        pairs = zip(tensors, self.parameters, strict=True)
        return torch.cat(
            [
                (torch.zeros_like(like) if one is None else one.to_dense() if one.is_sparse else one)
                .detach().flatten().to(home)
                for one, like in pairs
            ]
        )  # fmt: skip


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
