"""The script's ``results.json`` from stored runs."""

from __future__ import annotations

from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun


def to_script(store: Store) -> dict[str, Any]:
    """Returns the plain and the residual run of one seed in the layout of the script's file."""
    runs = {run.arm: run for run in store.select("depth").finished}
    missing = [arm for arm in ("plain", "residual") if arm not in runs]
    if missing:
        raise KymographError(f"the script's file needs the arms plain and residual; {missing[0]!r} is missing")
    config = runs["plain"].config
    return {
        "config": {
            "num_layers": config["layers"],
            "hidden_dim": config["width"],
            "num_samples": config["n_samples"],
            "training_steps": config["steps"],
            "learning_rate": config["lr"],
            "batch_size": config["batch_size"],
        },
        "plain_mlp": _network(runs["plain"]),
        "res_mlp": _network(runs["residual"]),
    }


def _network(run: StoredRun) -> dict[str, Any]:
    return {
        "final_loss": run.summary["final_loss"],
        "initial_loss": run.summary["initial_loss"],
        "gradient_norms": run.series["grad_norm"].value[-1].tolist(),
        "activation_means": run.series["pre_mean"].value[-1].tolist(),
        "activation_stds": run.series["pre_std"].value[-1].tolist(),
    }
