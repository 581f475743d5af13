"""What the script prints, from stored runs: its numbers, its verdict lines and its clipping ratio, for one seed."""

from __future__ import annotations

from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.studies.clipping import IMBALANCES

ARMS = {"no_clip": "no_clip", "clip": "with_clip"}
"""The arms' names here, and in the script."""
KEYS = ("weight_norm_std", "weight_change_mean", "weight_change_max", "grad_norm_max", "effective_dim_std",
        "final_rare_acc")  # fmt: skip


def to_script(store: Store) -> dict[str, Any]:
    """Returns, per imbalance, the script's statistics of both arms with the lines that it prints from them.

    A verdict line of the script compares two numbers of one seed, without margin or test: prediction 2 is "SUPPORTED"
    if the effective dimension varies more without clipping than with it (line 494), prediction 4 if the final rare
    accuracy with clipping is at least that without (line 500). The clipping ratio is the largest gradient norm of the
    run without clipping over the threshold (line 512).
    """
    runs = {run.arm: run for run in store.select("clipping").finished}
    needed = [f"{imbalance}/{arm}" for imbalance in IMBALANCES for arm in ARMS]
    missing = [arm for arm in needed if arm not in runs]
    if missing:
        raise KymographError(f"the script's output needs the arms {', '.join(needed)}; {missing[0]!r} is missing")
    return {imbalance: _statistics(runs[f"{imbalance}/no_clip"], runs[f"{imbalance}/clip"]) for imbalance in IMBALANCES}


def _statistics(no_clip: StoredRun, clip: StoredRun) -> dict[str, Any]:
    before, after = no_clip.summary, clip.summary
    return {
        **{key: {ARMS["no_clip"]: before[key], ARMS["clip"]: after[key]} for key in KEYS},
        "prediction_2": _verdict(before["effective_dim_std"] > after["effective_dim_std"]),
        "prediction_4": _verdict(after["final_rare_acc"] >= before["final_rare_acc"]),
        "clipping_ratio": before["clipping_ratio"],
    }


def _verdict(supported: bool) -> str:
    return "SUPPORTED" if supported else "NOT SUPPORTED"
