"""Log axes with few ticks: powers of ten, and where there are hardly any, 2 and 5 between them, as plain numbers."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator

FEW_DECADES = 1.5
"""Below this many decades the ticks between powers of ten have numbers."""


def set_log_y(axes: Axes) -> None:
    """Makes the vertical axis logarithmic; eight ticks between powers of ten would tell nothing and take time."""
    axes.set_yscale("log")
    axis = axes.yaxis
    powers = LogFormatterMathtext()
    powers.set_axis(axis)
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}" if _few(axis) else powers(value, place)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _few(axis) else ""))


def _few(axis: Axis) -> bool:
    low, high = sorted(axis.get_view_interval())
    return low > 0 and math.log10(high / low) < FEW_DECADES
