"""Whether a series is drawn on a log scale: as its study declares, or as its values suggest."""

from __future__ import annotations

import numpy as np

from kymograph.runs.declaration import SeriesDisplay


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
    return bool(len(finite) and finite.min() > 0 and finite.max() > 50 * finite.min())
