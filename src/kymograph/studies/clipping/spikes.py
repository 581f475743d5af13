"""Do gradient spikes sit at rare samples, how often are they clipped, and how much movement comes from them?

The script announced this analysis but never did it. A step is *rare* if its batch holds a rare sample.
"""

from __future__ import annotations

import numpy as np

from kymograph.statistics.effects import auc


def spike_analysis(
    grad_norm: np.ndarray, clipped: np.ndarray, update_norm: np.ndarray, rare_count: np.ndarray
) -> dict[str, float]:
    """Returns gradient, clipping and movement at rare steps against common ones, all inputs of shape (steps,).

    * ``rare_grad_norm``, ``common_grad_norm``: median norm before clipping, and ``spike_ratio``, their quotient;
    * ``spike_auc``: the probability that a rare step has a larger gradient than a common one (ties count half);
    * ``rare_clip_fraction``, ``common_clip_fraction``: the fraction of steps that were clipped;
    * ``rare_effective_lr``, ``common_effective_lr``: median of movement over gradient;
    * ``rare_step_share``, ``rare_movement_share``: the rare steps' share of all steps and of the path length.

    Where one kind of step is absent, its numbers are NaN.
    """
    rare = rare_count > 0
    result = {}
    for kind, steps in (("rare", rare), ("common", ~rare)):
        norms, moves = grad_norm[steps].astype(np.float64), update_norm[steps]
        moving = norms > 0
        result[f"{kind}_grad_norm"] = _median(norms)
        result[f"{kind}_clip_fraction"] = float(clipped[steps].mean()) if steps.any() else np.nan
        result[f"{kind}_effective_lr"] = _median(moves[moving] / norms[moving])
    result["spike_ratio"] = (
        result["rare_grad_norm"] / result["common_grad_norm"] if result["common_grad_norm"] > 0 else np.nan
    )
    result["spike_auc"] = auc(grad_norm[rare], grad_norm[~rare])
    total = float(update_norm.sum())
    result["rare_step_share"] = float(rare.mean())
    result["rare_movement_share"] = float(update_norm[rare].sum()) / total if total > 0 else np.nan
    return result


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else np.nan
