"""Alarms: the epoch at which a run's stream grows too much, or its gradient is too small to compare credit with.

The thresholds are those of arXiv:2606.21126, whose gradient is that of a mean loss over 1,024 images. A gradient is
also small when the network is simply right, so the published alarm fires for a network that backpropagation has trained
well. Hence a third alarm, on the gradient per unit of output error, with the same threshold per image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kymograph._rounding import number_text

GROWTH = 50.0
"""Largest ||h_{l+1}|| / ||h_l|| that counts as stable."""
GRADIENT = 1e-7
"""Smallest ||g_L|| on the scripts' scale (mean over the buffer) that counts as a valid reference."""
SENSITIVITY = GRADIENT * 1024
"""The same per image and unit of output error: smallest ||g_L|| / ||e||."""
MEANINGS = {
    "growth": f"the activation norm grows more than {GROWTH:g}-fold from one block to the next",
    "gradient": "the norm of the gradient at the last block, of the mean loss over the probe images, is below "
    f"{number_text(GRADIENT, typeset=True)}",
    "reference": f"that norm per image and unit of output error is below {number_text(SENSITIVITY, typeset=True)}",
}
"""When each alarm is raised, in words."""


def summary_key(alarm: str) -> str:
    """Returns the key of a run's summary that has the epoch at which the alarm is first raised."""
    return f"alarm_{alarm}_epoch"


def growth_per_block(norms: Sequence[float] | np.ndarray) -> float:
    """Returns the largest ratio of neighbouring norms along the stream; NaN if there is none."""
    values = np.asarray(norms, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = values[1:] / values[:-1]
    ratios = ratios[~np.isnan(ratios)]
    return float(ratios.max()) if len(ratios) else math.nan


def active_alarms(row: Mapping[str, Any], buffer: int) -> list[str]:
    """Returns the alarms that one epoch's measurements raise; NaN raises none."""
    last = row["grad_norms"][-1]
    alarms = []
    if growth_per_block(row["hidden_norms"]) > GROWTH:
        alarms.append("growth")
    if last / buffer < GRADIENT:
        alarms.append("gradient")
    error = row.get("error_norm", math.nan)
    if error > 0 and last / error < SENSITIVITY:
        alarms.append("reference")
    return alarms


def first_epochs(rows: Sequence[Mapping[str, Any]], buffer: int) -> dict[str, int | None]:
    """Returns the epoch at which each alarm is first raised; None if it never is."""
    epochs: dict[str, int | None] = dict.fromkeys(MEANINGS)
    for row in reversed(rows):
        epochs |= dict.fromkeys(active_alarms(row, buffer), int(row["epoch"]))
    return epochs
