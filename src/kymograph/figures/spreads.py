"""What the band around a curve over seeds shows, and its label in a legend."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kymograph.errors import KymographError, did_you_mean
from kymograph.statistics.intervals import mean_interval

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

    Both are computed from the values themselves even on a log axis, where an edge at or below 0 cannot be drawn, as in
    the script that drew the figures of `snapshot`.
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
