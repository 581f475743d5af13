"""Where over training and depth two arms differ: paired differences with p-values that hold for the whole map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kymograph.errors import KymographError
from kymograph.runs.store import Store
from kymograph.statistics.sign_flips import LEAST_SEEDS, max_t


@dataclass(frozen=True)
class DifferenceMap:
    """Mean differences over seeds at every step (and site), and their p-values, adjusted over the whole map."""

    effect: np.ndarray  # (step,) or (step, site): mean of left - right, or of log left - log right
    p: np.ndarray
    """Two-sided, by the largest |t| of the map under joint sign flips of seeds; NaN where nothing could be compared."""
    steps: tuple[int, ...]
    sites: tuple[str, ...] | None
    seeds: tuple[int, ...]

    def first(self, alpha: float = 0.05) -> int | None:
        """Returns the first step at which the arms differ at any site; None if they never do."""
        rows = self.p.reshape(len(self.steps), -1)
        found = [step for step, row in zip(self.steps, rows, strict=True) if (row <= alpha).any()]
        return found[0] if found else None


def difference_map(store: Store, series: str, left: str, right: str, log: bool = False) -> DifferenceMap:
    """Compares a series of two arms at every step and site, paired by seed.

    Args:
        store: the runs; one setting per arm.
        series: the series' name.
        left, right: the arms.
        log: whether to compare logarithms, as is usual for norms and losses.
    """
    array = store.finished.select(arms=[left, right]).series(series)
    one, other = (np.asarray(array.sel(arm=arm).values, dtype=np.float64) for arm in (left, right))
    whole = [index for index in range(len(one)) if not (np.isnan(one[index]).all() or np.isnan(other[index]).all())]
    if len(whole) < LEAST_SEEDS:
        raise KymographError(f"{len(whole)} seeds have both arms, but a map needs at least {LEAST_SEEDS}")
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = (np.log(one) - np.log(other) if log else one - other)[whole]
    differences[~np.isfinite(differences)] = np.nan
    table = differences.reshape(len(whole), -1)
    p = max_t(table).reshape(differences.shape[1:])
    sites = array.labels.get("site")
    return DifferenceMap(
        differences.mean(0), p, tuple(array.labels["step"]), None if sites is None else tuple(sites),
        tuple(array.labels["seed"][index] for index in whole),
    )  # fmt: skip
