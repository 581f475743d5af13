"""Scales: log or linear, the range of colours, a claim's margin, and what the band around a curve shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kymograph._claims.claim import Claim
from kymograph._errors import KymographError, did_you_mean
from kymograph._runs.declaration import SeriesDisplay
from kymograph._statistics.intervals import mean_interval

LARGEST = 1e250
"""The largest number that is drawn: means of larger ones, and the margins and ticks around them, overflow."""
MAP = "viridis"
SIGNED_MAP = "PuOr_r"
"""For values on both sides of 0: diverging, and safe for colour-blind readers."""


def drawable(values: np.ndarray) -> np.ndarray:
    """Returns the values in float64, NaN where they are infinite or too large to draw.

    >>> drawable(np.array([-1.0, np.inf, 1e300])).tolist()
    [-1.0, nan, nan]
    """
    return np.where(np.abs(values) <= LARGEST, values, np.nan).astype(np.float64)


def flushed(values: np.ndarray) -> np.ndarray:
    """Returns the values with 0 in place of those too small to compute with."""
    return np.where(np.abs(values) < 1 / LARGEST, 0.0, values)


def is_log(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether lines of ``values`` have a log axis: as declared, else if they are positive and span decades."""
    return spans_decades(values) if display.log is None else display.log


def is_log_profile(display: SeriesDisplay, values: np.ndarray) -> bool:
    """Returns whether profiles of ``values`` have a log axis: as declared, else if the positive ones span decades.

    Unlike a curve, a profile may be exactly 0 at some sites, e.g. behind dead units; these are drawn at the edge.
    """
    if display.log is not None:
        return display.log
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() >= 0 and spans_decades(finite[finite > 0]))


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


MOST_STRETCH = 1.15
"""The first step is allowed to saturate if it would stretch the range of all others by more than this factor."""


def colour_values(panels: Iterable[np.ndarray], log: bool) -> np.ndarray:
    """Returns the values that set the colour range of ``panels``, each (step, site): all, or all but the first step's.

    Before the first update, values are often decades away from those during training; a colour range that includes them
    leaves little for training itself.
    """
    shown = [np.where(panel > 0, panel, np.nan) if log else panel for panel in panels]
    everything, later = _finite(shown), _finite([panel[_first(panel) + 1 :] for panel in shown])
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


def no_effect(claim: Claim) -> float:
    """Returns the value that means no effect: a ratio of 1 or a difference of 0."""
    return 1.0 if claim.scale == "log ratio" else 0.0


def has_margin(claim: Claim) -> bool:
    """Returns whether the claim states how large an effect must be."""
    return claim.margin != no_effect(claim)


def margin_ends(claim: Claim) -> tuple[float, float]:
    """Returns both ends of the claim's margin as drawn."""
    return (1 / claim.margin, claim.margin) if claim.scale == "log ratio" else (-claim.margin, claim.margin)


Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The curve, the lower and the upper edge of its band, each (x,)."""


@dataclass(frozen=True)
class Spread:
    """A curve and a band from the values of several seeds."""

    name: str
    about: str
    of: Callable[[np.ndarray, bool], Band]
    """Takes values (seed, x), and whether their axis is logarithmic."""
    on_linear: str
    """The label of the band in a legend."""
    on_log: str
    """The same on a log axis."""

    def label(self, log: bool) -> str:
        """Returns the label of the band in a legend."""
        return self.on_log if log else self.on_linear

    def label_of_all(self, logs: Iterable[bool]) -> str:
        """Returns the label of the bands in a legend for several panels, given which panels have log axes."""
        names = dict.fromkeys(map(self.label, logs))
        return next(iter(names)) if len(names) == 1 else f"{self.on_linear[:-1]}; on log axes geometric)"


def mean_and_sd(values: np.ndarray, log: bool = False) -> Band:
    """Returns mean, mean - sd and mean + sd of ``values`` (seed, x), with denominator n, not n - 1.

    Both are computed from the values themselves even on a log axis, where an edge at or below 0 cannot be drawn.
    """
    with warnings.catch_warnings():  # where no seed has a value, neither has the mean
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, sd = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    return mean, mean - sd, mean + sd


INTERVAL = Spread(
    "interval",
    "the mean (geometric on a log axis) and its 95 % Student-t interval",
    mean_interval,
    "95 % interval of the mean (Student's t)",
    "95 % interval of the geometric mean (Student's t)",
)
SD = Spread(
    "sd",
    "the mean and the standard deviation over seeds, with n in the denominator",
    mean_and_sd,
    "mean ± standard deviation (denominator n)",
    "mean ± standard deviation (denominator n)",
)
SPREADS = {spread.name: spread for spread in (INTERVAL, SD)}


def choose_spread(name: str | None) -> Spread:
    """Returns the spread called ``name``; None: the interval."""
    if name is None:
        return INTERVAL
    if name not in SPREADS:
        raise KymographError(f"there is no spread {name!r}{did_you_mean(name, SPREADS)}")
    return SPREADS[name]
