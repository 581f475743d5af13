"""What the script prints for a network, from a stored run: its cosines, those of fresh matrices, and its conclusion."""

from __future__ import annotations

from typing import Any

from kymograph.analysis.nulls import REFERENCE
from kymograph.errors import KymographError
from kymograph.runs.store import Store

NEAR_ZERO, SIMILAR = 0.05, 0.10
"""The script's cut-offs for the mean cosine of fresh matrices over the deep layers (lines 137 and 141)."""


def to_script(store: Store) -> dict[str, Any]:
    """Returns the numbers that the script prints for one network; standard deviations have denominator n.

    The script's ``deep_std`` is taken over draws and layers together (line 128): it measures how much the cosine of one
    layer varies, and is larger than the standard deviation of the deep mean, the summary's ``deep_null_sd``.
    """
    runs = list(store.select("calibration").finished)
    if len(runs) != 1:
        found = ", ".join(run.arm for run in runs) or "none"
        raise KymographError(f"the script examines one network; choose it with --arms and --seed (found: {found})")
    (run,) = runs
    training = run.series["cosine"].value[0]  # (layers,)
    draws = run.series[f"null_{REFERENCE}"].value[:, : len(training)]  # (draws, layers), without the deep mean
    deep = draws[:, 1:]
    return {
        "network": f"{run.arm} at seed {run.seed}",
        "images": run.summary["calibration_images"],
        "n_fresh": len(draws),
        "test_acc": run.summary["test_accuracy"],
        "training": {
            "cos_mean": training.tolist(),
            "layer_mean": float(training.mean()),
            "deep_mean": float(training[1:].mean()),
        },
        "fresh": {
            "cos_mean": draws.tolist(),
            "deep_mean_by_draw": deep.mean(axis=1).tolist(),
            "mean_by_layer": draws.mean(axis=0).tolist(),
            "std_by_layer": draws.std(axis=0).tolist(),
            "deep_mean": float(deep.mean()),
            "deep_std": float(deep.std()),
        },
        "conclusion": conclusion(float(deep.mean())),
    }


def conclusion(fresh_deep_mean: float) -> str:
    """Returns which of three conclusions the script's cut-offs give; NaN gives the last, as in the script.

    The cut-offs use only the mean of the null, which is 0 whatever the network does. The p-values and claims of
    `calibration` decide what they cannot.
    """
    size = abs(fresh_deep_mean)
    if size < NEAR_ZERO:
        return "real: fresh matrices give a cosine near 0"
    if size > SIMILAR:
        return "generic: fresh matrices give a cosine like that of training"
    return "mixed: fresh matrices give something in between"
