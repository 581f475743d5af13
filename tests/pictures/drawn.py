"""Runs to draw figures from, and what must hold for every figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kymograph._runs.declaration import Arm, Declaration, write_declaration
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.records import write_record

SITES = ("fc.0", "fc.2", "fc.4")
ARMS = ("relu", "gelu", "elu")
"""Neither in the order of the alphabet nor in its reverse."""


def make_store(root: Path, growth: float = 40.0, zero: bool = False) -> Store:
    """Stores runs whose series change by a factor during training, at three layers with names."""
    for index, arm in enumerate(ARMS):
        for seed in range(4):
            draw = np.random.default_rng([index, seed])
            time = np.arange(0, 50, 10)
            share = growth ** (time / time[-1])
            norm = share[:, None] * (1 + index + 0.1 * draw.random((len(time), 3)))
            dead = 0.1 + 0.1 * draw.random((len(time), 3))
            if zero and seed == 0:
                dead[2, 1] = norm[2, 1] = 0.0
            series = {
                "loss": RunSeries(time, 1 / share + 0.01 * draw.random(len(time))),
                "weight_norm": RunSeries(time, norm, SITES),
                "dead_fraction": RunSeries(time, dead, SITES),
            }
            write_record(root, RunSpec("own", arm, seed, {}, 1), RunResult(series, {"loss": 1.0}), {}, 0.1)
    write_declaration(root / "own", Declaration("own", arms=tuple(map(Arm, ARMS)), version=1))
    return Store.open(root)


def points_outside(drawn: Any) -> list[str]:
    """Returns the lines of a figure of which a point is outside the axes they are drawn in."""
    drawn.draw_without_rendering()
    found = []
    for axes in drawn.axes:
        if not axes.get_visible():
            continue
        low, high = sorted(axes.get_ylim())
        left, right = sorted(axes.get_xlim())
        for line in axes.lines:
            if line.get_transform() != axes.transData:
                continue  # a line across the axes
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            finite = np.isfinite(x) & np.isfinite(y)
            inside = (low <= y[finite]) & (y[finite] <= high) & (left <= x[finite]) & (x[finite] <= right)
            if not inside.all():
                found.append(f"{axes.get_title()}: {line.get_label()}")
    return found
