"""A summary number against the setting that a sweep varies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes

from kymograph.figures.arm_looks import ArmLook
from kymograph.figures.log_axes import set_log_y
from kymograph.figures.mathematics import literal
from kymograph.figures.seed_curves import seed_curves
from kymograph.figures.style import LabFigure
from kymograph.runs.bounds import bounds_of
from kymograph.runs.stored import StoredRun


def sweep_curves(
    figure: LabFigure,
    axes: Axes,
    panel: str,
    runs: Iterable[StoredRun],
    key: str,
    x: Callable[[StoredRun], float],
    curve: Callable[[StoredRun], ArmLook],
    log: bool,
) -> None:
    """Draws the summary number ``key`` against ``x``, on a log axis, with one curve per look that ``curve`` returns."""
    groups: dict[ArmLook, dict[tuple[int, float], float]] = {}
    for run in runs:
        value = run.summary.get(key)
        number = np.nan if value is None or isinstance(value, str) else float(value)
        groups.setdefault(curve(run), {})[run.seed, x(run)] = number
    ticks: set[float] = set()
    for look, points in groups.items():
        seeds = tuple(dict.fromkeys(seed for seed, _ in points))
        positions = np.array(sorted({position for _, position in points}))
        values = np.array([[points.get((seed, position), np.nan) for position in positions] for seed in seeds])
        ticks |= set(positions.tolist())
        columns = zip(positions, values.T, strict=True)
        lost = [f"{position:g}" for position, column in columns if not np.isfinite(column).any()]
        label = f"{look.label}, not finite at {', '.join(lost)}" if lost else look.label
        seed_curves(figure, axes, panel, label, positions, values, seeds, look.hex, log, marker="o",
                    dash=look.dashes, bounds=bounds_of(key, values))  # fmt: skip
    if log:
        set_log_y(axes)
    axes.set_xscale("log")
    axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    axes.minorticks_off()
    axes.set_title(literal(panel))
