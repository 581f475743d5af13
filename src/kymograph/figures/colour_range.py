"""The range of values covered by a kymograph's colours."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MOST_STRETCH = 1.15
"""The first step is allowed to saturate if it would stretch the range of all others by more than this factor."""


def colour_values(panels: Iterable[np.ndarray], log: bool) -> np.ndarray:
    """Returns the values that set the colour range of ``panels``, each (step, site): all, or all but the first step's.

    Before the first update, values are often decades away from those during training; a colour range that includes them
    leaves little for training itself.
    """
    found = [np.where(panel > 0, panel, np.nan) if log else panel for panel in panels]
    everything, later = (_finite(found), _finite([panel[_first(panel) + 1 :] for panel in found]))
    if len(later) < 2 or _span(later, log) == 0 or _span(everything, log) <= MOST_STRETCH * _span(later, log):
        return everything
    return later


def relative_to_start(panel: np.ndarray) -> np.ndarray:
    """Returns ``panel`` (step, site) divided by its first step with any value; NaN where that is missing or 0."""
    if np.isnan(panel).all():
        return panel
    start = panel[_first(panel)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(start != 0, panel / start, np.nan)


def _first(panel: np.ndarray) -> int:
    """Returns the first step at which some site has a value."""
    return int(np.argmax((~np.isnan(panel)).any(axis=1))) if len(panel) else 0


def _finite(panels: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([panel[np.isfinite(panel)] for panel in panels]) if panels else np.empty(0)


def _span(values: np.ndarray, log: bool) -> float:
    ends = np.log(values) if log else values
    return float(ends.max() - ends.min()) if len(ends) else 0.0
