"""A study's headline numbers as text."""

from __future__ import annotations

import numpy as np

from kymograph.runs.store import Store
from kymograph.studies.base import Study


def headline_table(study: Study, store: Store) -> str:
    """Returns the study's headline numbers as text: a row per arm, mean over seeds and its 95 % interval."""
    header = ["arm", "n", *study.headlines.values()]
    rows = []
    for arm in store.arms:
        part = store.select(arms=[arm])
        cells = [_mean_and_interval(part.summary(key).values[0]) for key in study.headlines]
        diverged = sum(run.summary.get("finite") is False for run in part)
        rows.append([arm, f"{len(part.seeds)}" + (f" ({diverged} diverged)" if diverged else ""), *cells])
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    )


def _mean_and_interval(values: np.ndarray) -> str:
    """Returns ``mean [low, high]`` over seeds; the interval is Student's t and is left out for a single seed."""
    from scipy.special import stdtrit

    total = len(values)
    values = values[np.isfinite(values)]
    if not len(values):
        return "missing"
    left_out = f" of {len(values)}" if len(values) < total else ""
    mean = values.mean()
    if len(values) == 1:
        return f"{mean:.3g}{left_out}"
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))
    spread = "" if half == 0 else f" [{mean - half:.3g}, {mean + half:.3g}]"
    return f"{mean:.3g}{spread}{left_out}"
