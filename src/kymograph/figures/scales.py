"""Whether a series is drawn on a log scale, as its study declares or its values suggest, and what can be drawn."""

from __future__ import annotations

import numpy as np

from kymograph.runs.declaration import SeriesDisplay

LARGEST = 1e250
"""The largest number that is drawn: matplotlib's margins and ticks around larger ones overflow."""


def drawable(values: np.ndarray) -> np.ndarray:
    """Returns the values in float64, NaN where they are infinite or too large to draw.

    >>> drawable(np.array([-1.0, np.inf, 1e300])).tolist()
    [-1.0, nan, nan]
    """
    return np.where(np.abs(values) <= LARGEST, values, np.nan).astype(np.float64)


def is_log(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether lines of ``values`` have a log axis: as declared, else if they are positive and span decades."""
    return spans_decades(values) if display.log is None else display.log


def is_log_colour(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether colours show ``values`` on a log scale: as declared, else if all are positive.

    Zeros among values that span decades are taken for underflow, e.g. of vanishing gradients: they have no colour on a
    log scale, but count in the means (see `geometric_means`). Among other values they require a linear scale.
    """
    if display.log is not None:
        return display.log
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.min() < 0:
        return False
    return bool(finite.min() > 0 or spans_decades(finite[finite > 0]))


def geometric_means(values: np.ndarray, log: bool, axis: int = 0) -> bool:
    """Returns whether means over seeds (``axis`` of ``values``) are geometric: on a log scale, unless only some are 0.

    If one seed is 0, so is the geometric mean, and a mean without that seed is not one over all seeds. Where all seeds
    are 0, both kinds of mean are 0, so the choice does not matter.

    >>> geometric_means(np.array([[1.0, 0.0], [2.0, 0.0]]), log=True)
    True
    >>> geometric_means(np.array([[1.0, 0.0], [2.0, 3.0]]), log=True)
    False
    """
    return log and not ((values <= 0).any(axis=axis) & (values > 0).any(axis=axis)).any()


def spans_decades(values: np.ndarray) -> bool:
    """Returns whether values call for a log scale: all positive, over more than a factor of 50."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and float(finite.max()) > 50 * float(finite.min()))
