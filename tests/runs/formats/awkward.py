"""A store with everything that trackers stumble over: missing values, infinities, odd names, a failed run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record

STEP = np.array([0, 5, 10, 20])


def awkward_store(root: Path) -> Store:
    """Two finished runs of one study and one of another, and a failed run."""
    for study, arm, seed in (("one", "a/clip", 1), ("one", "a/clip", 2), ("two", "b", 1)):
        write_record(root, spec(study, arm, seed), result(seed), {"torch": "none"}, 1.5)
    write_failure(root, spec("one", "a/no_clip", 1), "loss is NaN at step 3", {})
    return Store.open(root)


def spec(study: str, arm: str, seed: int) -> RunSpec:
    """A run with a setting of every type."""
    return RunSpec(study, arm, seed, {"lr": 0.1, "epochs": 3, "clip": "norm", "skip": True, "limit": None}, 1)


def result(seed: int) -> RunResult:
    """Series with and without sites; `blocks` lacks values, `loss` overflows at its end."""
    loss = np.array([3.0, 2.0, 1.0 / seed, np.inf])
    blocks = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 4.5], [0.25, seed]])
    nothing = np.full(4, np.nan)
    series = {
        "loss": RunSeries(STEP, loss),
        "blocks": RunSeries(STEP, blocks, ("h_0", "||h|| %")),
        "count": RunSeries(STEP[:1], np.array([7], dtype=np.int64)),
        "nothing": RunSeries(STEP, nothing),
    }
    summary = {"final_loss": np.inf, "gain": 0.1 * seed, "rare": np.nan, "finite": False, "kind": f"k{seed}", "n": 4}
    return RunResult(series, summary)


def expected(seed: int) -> dict[str, list[tuple[int, float]]]:
    """The points that a tracker must show for a finished run, and no others."""
    return {
        "loss": [(0, 3.0), (5, 2.0), (10, 1.0 / seed), (20, np.inf)],
        "blocks/h_0": [(0, 1.0), (10, 0.0), (20, 0.25)],
        "blocks/||h|| %": [(10, 4.5), (20, float(seed))],
        "count": [(0, 7.0)],
        "summary/final_loss": [(20, np.inf)],
        "summary/gain": [(20, 0.1 * seed)],
        "summary/finite": [(20, 0.0)],
        "summary/n": [(20, 4.0)],
    }
