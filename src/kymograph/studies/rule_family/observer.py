"""Measurements during training (fit, alignment and its null, angles, norms), and a run's summary numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kymograph.analysis.alarms import growth_per_block
from kymograph.analysis.alignment import alignment, fresh_alignments, mean_known
from kymograph.analysis.feedback_angle import feedback_angles
from kymograph.analysis.flow import accuracy, diagnose
from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import Rule
from kymograph.runs.record import RunSeries
from kymograph.statistics.monte_carlo import monte_carlo_p
from kymograph.studies.rule_family.tasks import FamilyTask, Samples

PROBE = 128
"""Training samples on which alignment is measured: two batches."""
SITED = ("alignment", "feedback_angle", "update_size", "stream_norm")

NO_NULL = dict.fromkeys(("alignment_null", "alignment_null_sd", "alignment_p"))
"""The numbers of `Observer.null` if nothing was drawn."""


def measured_steps(total: int, count: int) -> tuple[int, ...]:
    """Returns 0 (before training) and up to ``count`` log-spaced steps from 1 to ``total``.

    >>> measured_steps(64, 4)
    (0, 1, 4, 16, 64)
    """
    return (0, *sorted({round(step) for step in np.geomspace(1, total, count)}))


class Observer:
    """Measures a network as it learns; each row is one measurement."""

    def __init__(self, net: BlockNetwork, rule: Rule, name: str, task: FamilyTask) -> None:
        self.net, self.rule, self.name, self.task = net, rule, name, task
        self.probe = Samples(task.fitted.x[:PROBE], task.fitted.y[:PROBE])
        self.rows: list[dict[str, Any]] = []

    def measure(self, step: int) -> dict[str, Any]:
        """Measures everything that is followed during training."""
        flow = diagnose(self.net, *self.task.fitted, None)
        aligned = alignment(self.rule, *self.probe)
        row = {
            "step": step,
            "test_accuracy": accuracy(self.net, *self.task.test),
            "training_loss": flow["loss_eval"],
            "training_accuracy": flow["acc_eval"],
            "mean_alignment": aligned.mean,
            "alignment": aligned.cosines,
            "update_size": aligned.sizes,
            "feedback_angle": feedback_angles(self.rule),
            "stream_norm": {f"h_{number}": size for number, size in enumerate(_numbers(flow["hidden_norms"]))},
            "gradient_per_error": _numbers(flow["grad_norms"])[-1] / _number(flow["error_norm"]),
        }
        self.rows.append(row)
        return row

    def series(self) -> dict[str, RunSeries]:
        """Returns the rows as series; a quantity with a value per site has one column per site."""
        steps = np.array([row["step"] for row in self.rows])
        plain = ("test_accuracy", "training_loss", "training_accuracy", "mean_alignment")
        found = {name: RunSeries(steps, np.array([row[name] for row in self.rows])) for name in plain}
        for name in SITED:
            sites = tuple(self.rows[0][name])
            if sites:
                values = np.array([[row[name][site] for site in sites] for row in self.rows])
                found[name] = RunSeries(steps, values, sites)
        return found

    def null(self, draws: int, seed: int) -> tuple[dict[str, Any], dict[str, RunSeries]]:
        """Returns the null from fresh feedback: numbers over all parts, and every part's mean and largest cosine."""
        drawn = fresh_alignments(self.name, self.rule, *self.probe, draws, seed)
        last = self.rows[-1]
        means = np.array([mean_known({part: float(values[number]) for part, values in drawn.items()})
                          for number in range(draws)])  # fmt: skip
        step, parts = np.array([last["step"]]), tuple(drawn)
        by_part = {
            "alignment_null": [float(values.mean()) for values in drawn.values()],
            "alignment_null_largest": [float(values.max()) for values in drawn.values()],
        }
        numbers = {
            "alignment_null": float(means.mean()),
            "alignment_null_sd": float(means.std(ddof=1)) if draws > 1 else None,
            "alignment_p": monte_carlo_p(last["mean_alignment"], means),
        }
        return numbers, {name: RunSeries(step, np.array([values]), parts) for name, values in by_part.items()}

    def numbers(self) -> dict[str, Any]:
        """Returns the summary numbers of the rows."""
        last = self.rows[-1]
        angles = last["feedback_angle"].values()
        return {
            "training_loss": last["training_loss"],
            "training_accuracy": last["training_accuracy"],
            "alignment": last["mean_alignment"],
            "largest_angle": max(angles) if angles else None,
            "growth_per_block": growth_per_block(list(last["stream_norm"].values())),
            "gradient_per_error": last["gradient_per_error"],
            **phases(
                [row["step"] for row in self.rows],
                [row["training_loss"] for row in self.rows],
                [row["mean_alignment"] for row in self.rows],
            ),
        }


def phases(steps: list[int], losses: list[float], alignments: list[float]) -> dict[str, float | None]:
    """Returns when alignment peaks and when half of the fit is done, with the alignment at that time and at the end.

    The fit is the decrease of the log training loss from before training to the end; half of it is done at the first
    measurement at which the loss is at most the geometric mean of the two. Times are in steps, counted from 1.
    """
    none: Mapping[str, float | None] = dict.fromkeys(
        ("alignment_peak_time", "half_fit_time", "alignment_at_half_fit", "alignment_after_half_fit", "loss_fall")
    )
    values = np.array([losses, alignments], dtype=np.float64)
    if len(steps) < 3 or not np.isfinite(values).all() or not losses[0] > losses[-1] > 0:
        return dict(none)
    half = math.sqrt(losses[0] * losses[-1])
    fitted = next(index for index, loss in enumerate(losses) if loss <= half)
    return {
        "alignment_peak_time": float(steps[int(np.argmax(values[1]))] + 1),
        "half_fit_time": float(steps[fitted] + 1),
        "alignment_at_half_fit": alignments[fitted],
        "alignment_after_half_fit": alignments[-1],
        "loss_fall": losses[0] / losses[-1],
    }


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


def _number(value: Any) -> float:
    return float(value) if value else math.nan
