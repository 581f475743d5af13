"""The angle between each weight and the feedback that replaces it in the backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.probes.vectors import directions
from kymograph.rules.base import Rule
from kymograph.rules.layer_rule import LayerRule


def feedback_angles(rule: Rule) -> dict[str, float]:
    """Returns the angle in degrees between W and B, flattened, for every weight that carries a signal backward.

    Empty for a rule whose feedback does not replace single weights.
    """
    if not isinstance(rule, LayerRule):
        return {}
    return {name: angle(weight, rule.feedback_of(name)) for name, weight in rule.carrying_weights().items()}


def angle(a: Tensor, b: Tensor) -> float:
    """Returns the angle between two tensors of one shape in degrees, accurate for small angles; NaN if one is zero.

    >>> round(angle(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])), 6)
    45.0
    """
    u, v = directions(a.detach().flatten()), directions(b.detach().flatten())
    # Kahan's formula: the arc cosine of a number near 1 loses half of its digits.
    half = torch.atan2(torch.linalg.vector_norm(u - v), torch.linalg.vector_norm(u + v))
    return float(2 * half.rad2deg())
