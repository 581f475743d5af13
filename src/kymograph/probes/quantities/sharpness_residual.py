"""Residual of the sharpness: how well its eigenvector satisfies the eigenvalue equation."""

from __future__ import annotations

from kymograph.probes.curvature import top_eigenpair
from kymograph.probes.fixed_batch import FixedBatch

PART = {
    "about": "|Hv - sharpness v| / |sharpness| of the unit vector v that the sharpness was found with",
    "unit": "1",
    "level": "deep",
    "order": 34,
    "at": "network",
}


def sharpness_residual(fixed: FixedBatch) -> float:
    """Returns |Hv - lambda v| / |lambda|; some eigenvalue of the Hessian lies within this share of the sharpness."""
    return top_eigenpair(fixed).residual
