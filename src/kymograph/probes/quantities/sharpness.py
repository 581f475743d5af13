"""Sharpness: the largest eigenvalue of the loss's Hessian on the fixed batch."""

from __future__ import annotations

from kymograph.probes.curvature import top_eigenpair
from kymograph.probes.fixed_batch import FixedBatch

PART = {
    "about": "largest eigenvalue of the Hessian of the loss on the fixed batch",
    "unit": "loss per squared unit of the weights",
    "level": "deep",
    "order": 33,
    "at": "network",
}


def sharpness(fixed: FixedBatch) -> float:
    """Returns the largest (not the largest absolute) eigenvalue of the Hessian over all trainable parameters.

    Computed before the step, in evaluation mode, by Lanczos iteration from the eigenvector of the previous measured
    step. `sharpness_residual` says how far it converged.
    """
    return top_eigenpair(fixed).value
