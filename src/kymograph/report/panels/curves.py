"""A series over training: mean, 95 % interval and range over seeds."""

from __future__ import annotations

import numpy as np

from kymograph.figures.scales import is_log
from kymograph.report.arm_curves import LineAxes, arm_curves, line_chart
from kymograph.report.chart import Chart, ChartRequest

PART = {"about": "a series against training time, one line per arm", "order": 20}


def draw(request: ChartRequest) -> Chart | None:
    """Returns the chart of a series with axes (arm, seed, step); None if it has fewer than two steps or no value."""
    array, display = request.curves(), request.display
    if array is None or len(array.labels["step"]) < 2:
        return None
    log = is_log(display, array.values)
    arms = arm_curves(request, array, np.array(array.labels["step"], dtype=np.float64), log)
    width = max((arm.width for arm in arms.values()), default=1)
    kept = "largest value" if display.bin_by == "max" else "mean"
    remark = f"Long series are thinned: each point is the {kept} of up to {width} steps." if width > 1 else ""
    return line_chart(request, arms, LineAxes(display.title, request.time, log, remark=remark))
