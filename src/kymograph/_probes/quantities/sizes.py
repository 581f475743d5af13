"""How large a layer's output and its gradient are."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from kymograph._probes.norms import norm

PARTS = {
    "output-norm": {
        "about": "L2 norm of a layer's output, over the whole batch",
        "unit": "units of the output",
        "level": "light",
        "order": 10,
        "at": "output",
        "together": "norm",
    },
    "output-rms": {
        "about": "root mean square of the entries of a layer's output",
        "unit": "units of the output",
        "level": "standard",
        "order": 20,
        "from": ["output_norm", "output_size"],
    },
    "output-size": {
        "about": "entries of a layer's output",
        "unit": "entries",
        "order": 90,
        "at": "output",
        "together": "sum",
    },
    "output-gradient-norm": {
        "about": "L2 norm of the gradient with respect to a layer's output",
        "unit": "loss per unit of the output",
        "level": "light",
        "order": 11,
        "point": "unscaled",
        "at": "output-gradient",
        "together": "norm",
    },
}


def output_norm(output: Tensor) -> Tensor | float:
    """Returns the L2 norm over all entries of ``output``.

    >>> float(output_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return norm(output)


def output_rms(norm: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Returns ``norm`` divided by the root of ``size``: the size of a typical entry, independent of the batch size.

    >>> output_rms(np.array([6.0]), np.array([4.0]))
    array([3.])
    """
    rms: np.ndarray = norm / np.sqrt(size)
    return rms


def output_size(output: Tensor) -> int:
    """Returns the number of entries of ``output``.

    >>> output_size(torch.zeros(2, 3))
    6
    """
    return output.numel()


def output_gradient_norm(gradient: Tensor) -> Tensor | float:
    """Returns the L2 norm over all entries of ``gradient``.

    It is the gradient of the tensor that ``backward`` was called on, divided by the scale of the probe's ``scaler``.
    For a mean over the batch it shrinks as the batch grows.

    >>> float(output_gradient_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return norm(gradient)
