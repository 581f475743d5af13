"""Weights, their gradients and their updates, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from kymograph._probes.norms import inner_product, norms_of

PARTS = {
    "weight-norm": {
        "about": "L2 norm of all parameters of a layer, before the step",
        "unit": "units of the weights",
        "level": "light",
        "order": 12,
        "at": "weight",
        "together": "norm",
        "view": "flat",
    },
    "weight-gradient-norm": {
        "about": "L2 norm of the gradient of a layer's parameters, as the optimizer applies it",
        "unit": "loss per unit of the weights",
        "level": "standard",
        "order": 23,
        "point": "clipped",
        "at": "weight-gradient",
        "together": "norm",
    },
    "raw-weight-gradient-norm": {
        "about": "L2 norm of the gradient of a layer's parameters, as the backward pass leaves it",
        "unit": "loss per unit of the weights",
        "level": "standard",
        "order": 26,
        "point": "unscaled",
        "at": "raw-weight-gradient",
        "together": "norm",
    },
    "weight-gradient-dot": {
        "about": "inner product of a layer's weight gradients at this and the previous measured step",
        "unit": "squared loss per squared unit of the weights",
        "order": 91,
        "point": "clipped",
        "at": "weight-gradient",
        "together": "sum",
    },
    "gradient-cosine": {
        "about": "cosine of a layer's weight gradients at this and the previous measured step",
        "unit": "1",
        "log": False,
        "level": "standard",
        "order": 25,
        "point": "clipped",
        "from": ["weight_gradient_dot", "weight_gradient_norm"],
    },
    "update-norm": {
        "about": "L2 norm of the measured change of a layer's parameters in the step",
        "unit": "units of the weights",
        "level": "light",
        "order": 13,
        "at": "update",
        "together": "norm",
        "view": "flat",
    },
    "update-ratio": {
        "about": "norm of the measured update of a layer's weights over the norm of the weights before it",
        "unit": "1",
        "level": "standard",
        "order": 24,
        "from": ["update_norm", "weight_norm"],
    },
}


def weight_norm(weights: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``weights``.

    >>> float(weight_norm([torch.tensor([3.0, 4.0])])[0])
    5.0
    """
    return norms_of(weights)


def weight_gradient_norm(gradients: Sequence[Tensor], previous: Sequence[Tensor | None]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``gradients``.

    They are read as ``optimizer.step`` begins: accumulated, unscaled and clipped, if the loop does any of these, and
    divided by the scale if a fused optimizer does that itself. A step that a ``GradScaler`` skips applies none: NaN. If
    no optimizer makes a step, and the probe was given none, they are read when the step ends.

    >>> float(weight_gradient_norm([torch.tensor([3.0, 4.0])], [None])[0])
    5.0
    """
    return norms_of(gradients)


def raw_weight_gradient_norm(gradients: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``gradients``.

    They are read when the last backward pass before the update has ended: accumulated, averaged over processes, divided
    by the scale of the probe's ``scaler``, and not clipped. Where a ``GradScaler`` skips a step they are not finite.

    >>> float(raw_weight_gradient_norm([torch.tensor([3.0, 4.0])])[0])
    5.0
    """
    return norms_of(gradients)


def weight_gradient_dot(
    gradients: Sequence[Tensor], previous: Sequence[Tensor | None]
) -> Sequence[Tensor | float | None]:
    """Returns the inner product of each of ``gradients`` (entries,) and its predecessor; None if there is none.

    >>> float(weight_gradient_dot([torch.tensor([3.0, 4.0])], [torch.tensor([1.0, 1.0])])[0])
    7.0
    """
    return [None if old is None else inner_product(new, old) for new, old in zip(gradients, previous, strict=True)]


def gradient_cosine(dot: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Returns the cosine of each gradient and the one measured before it, (steps, layers); NaN at the first step.

    With ``every=1`` these are the gradients of successive steps, below 0 where training oscillates; with ``every=10``
    they are ten steps apart. A gradient of 0 has no direction: NaN.

    >>> gradient_cosine(np.array([[np.nan], [-3.0]]), np.array([[2.0], [3.0]])).tolist()
    [[nan], [-0.5]]
    """
    before = np.full_like(norm, np.nan)
    before[1:] = norm[:-1]
    lengths = before * norm
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(lengths > 0, np.clip(dot / lengths, -1.0, 1.0), np.nan)


def update_norm(updates: Sequence[Tensor]) -> Sequence[Tensor | float]:
    """Returns the L2 norm of each of ``updates``: what the step subtracted from the weights.

    It is the measured change and includes momentum, weight decay and clipping. The update of a frozen layer is 0.

    >>> float(update_norm([torch.tensor([3.0, 4.0])])[0])
    5.0
    """
    return norms_of(updates)


def update_ratio(update: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Returns ``update`` over ``weight``; NaN where the weights are 0.

    >>> update_ratio(np.array([0.1, 0.1]), np.array([10.0, 0.0])).tolist()
    [0.01, nan]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weight > 0, update / weight, np.nan)
