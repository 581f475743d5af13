"""Inner product of successive gradients of a layer's weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kymograph.probes.reductions import inner_product

PART = {
    "about": "inner product of a layer's weight gradients at this and the previous measured step",
    "unit": "squared loss per squared unit of the weights",
    "order": 91,
    "at": "weight-gradient",
    "together": "sum",
}


def weight_gradient_dot(
    gradients: Sequence[Tensor], previous: Sequence[Tensor | None]
) -> Sequence[Tensor | float | None]:
    """Returns the inner product of each of ``gradients`` (entries,) and its predecessor; None if there is none.

    >>> float(weight_gradient_dot([torch.tensor([3.0, 4.0])], [torch.tensor([1.0, 1.0])])[0])
    7.0
    """
    return [None if old is None else inner_product(new, old) for new, old in zip(gradients, previous, strict=True)]
