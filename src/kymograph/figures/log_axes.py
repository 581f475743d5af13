"""Log axes with few ticks: powers of ten, with 2 and 5 in between, which are labelled only on short axes."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator

FEW_DECADES = 1.5
"""On axes of fewer decades, the ticks between powers of ten are labelled too."""


def set_log_y(axes: Axes) -> None:
    """Makes the vertical axis logarithmic, with few ticks."""
    axes.set_yscale("log")
    set_log_ticks(axes.yaxis)


def set_log_ticks(axis: Axis) -> None:
    """Gives a logarithmic axis minor ticks at 2 and 5 only; all eight would be slow to draw."""
    powers = LogFormatterMathtext()
    powers.set_axis(axis)
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, tick: f"{value:g}" if _few(axis) else powers(value, tick)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _few(axis) else ""))


def _few(axis: Axis) -> bool:
    low, high = sorted(axis.get_view_interval())
    return low > 0 and math.log10(high / low) < FEW_DECADES
