"""A series along depth: its last values against its sites."""

from __future__ import annotations

import numpy as np

from kymograph.figures.scales import is_log
from kymograph.report.arm_curves import LineAxes, arm_curves, line_chart
from kymograph.report.chart import Chart, ChartRequest
from kymograph.runs.arrays import LabelledArray

PART = {"about": "the last values of a series against its sites, one line per arm", "order": 40}


def draw(request: ChartRequest) -> Chart | None:
    """Returns the chart of the last values of a series with axes (arm, seed, step, site); None without sites."""
    array, display = request.array(), request.display
    if "site" not in array.labels:
        return None
    final = last_values(array)
    log = is_log(display, final.values)
    sites = array.labels["site"]
    arms = arm_curves(request, final, np.arange(len(sites), dtype=np.float64), log)
    title = f"{display.title}, along depth"
    if array.shape[2] > 1:
        title += f" at the last {(request.time.split() or ['step'])[-1]}"
    return line_chart(
        request, arms, LineAxes(title, str(display.facts.get("sites", "site")), log, tuple(map(str, sites)))
    )


def last_values(array: LabelledArray) -> LabelledArray:
    """Returns each arm's values at its last step, axes (arm, seed, site index); arms may end at different steps."""
    arms, seeds, sites = (array.labels[axis] for axis in ("arm", "seed", "site"))
    last = np.full((len(arms), len(seeds), len(sites)), np.nan)
    for index, values in enumerate(array.values):  # (seed, step, site)
        steps = np.flatnonzero((~np.isnan(values)).any(axis=(0, 2)))
        if len(steps):
            last[index] = values[:, steps[-1]]
    labels = {"arm": arms, "seed": seeds, "step": tuple(range(len(sites)))}
    return LabelledArray(array.name, last, ("arm", "seed", "step"), labels)
