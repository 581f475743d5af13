"""Whether a series is drawn on a log scale: as its study declares, or as its values suggest."""

from __future__ import annotations

import numpy as np

from kymograph.runs.declaration import SeriesDisplay


def is_log(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether lines of ``values`` have a log axis; undeclared, if they are positive and span decades."""
    return spans_decades(values) if display.log is None else display.log


def is_log_colour(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether colours stand for ``values`` on a log scale; undeclared, if none is negative and some positive.

    A value of exactly 0 has no colour on a log scale, but keeps its cell.
    """
    finite = values[np.isfinite(values)]
    return bool((finite >= 0).all() and (finite > 0).any()) if display.log is None else display.log


def spans_decades(values: np.ndarray) -> bool:
    """Returns whether values call for a log scale: all positive, over more than a factor of 50."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > 50 * finite.min())
