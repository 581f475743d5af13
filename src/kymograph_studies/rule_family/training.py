"""Training one network with one rule, and measuring it at log-spaced steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import kymograph as ky
from kymograph import RunResult, RunSeries, RunSpec, Workplace
from kymograph._runs.tuned import tuned_study
from kymograph._statistics.p_values import monte_carlo_p
from kymograph_studies.analysis.alarms import growth_per_block
from kymograph_studies.analysis.alignment import alignment, feedback_angles, fresh_alignments, mean_known
from kymograph_studies.analysis.flow import accuracy, diagnose
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rule_family import RuleFamilyConfig
from kymograph_studies.rule_family.claims import steps_to_angle
from kymograph_studies.rule_family.tasks import FamilyTask, Samples, family_network, family_task
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.feedback import feedback_hash
from kymograph_studies.training.loop import Update
from kymograph_studies.training.loop import train as training
from kymograph_studies.training.optimizers import AdamW

PROBE = 128
"""Training samples on which alignment is measured: two batches."""
TICKS = 10
"""How often a run reports its progress."""
PLAIN = ("test_accuracy", "training_loss", "training_accuracy", "mean_alignment")
SITED = ("alignment", "feedback_angle", "update_size", "stream_norm")

NO_NULL = dict.fromkeys(("alignment_null", "alignment_null_sd", "alignment_p"))
"""The numbers of `Observer.null` if nothing was drawn."""


def train(specs: Sequence[RunSpec[RuleFamilyConfig]], work: Workplace) -> list[RunResult]:
    """Trains the runs one after the other."""
    return [_trained(spec, work) for spec in specs]


def _trained(spec: RunSpec[RuleFamilyConfig], work: Workplace) -> RunResult:
    """Trains one network; a tuning run is measured only at its end."""
    config, seed = spec.config, spec.seed
    task = family_task(config, seed, work.device, work.data_dir)
    net = family_network(config, task, seed).to(work.device)
    flat = FlatNetwork(net)
    draw = ky.generator(seed, "feedback")
    rule = make(config.rule, net, generator=draw, example=task.fitted.x[:2])
    trained = rule.trained_parts()
    optimizer = AdamW(flat, config.lr, config.wd, [flat.spans[part] for part in flat.spans if part in trained])
    observer = Observer(net, rule, config.rule, task)
    tuning = tuned_study(spec.study) is not None
    moments = frozenset() if tuning else frozenset(measured_steps(config.steps, config.measurements))
    expected = steps_to_angle(config.lr, config.wd) if config.rule == "kp" and not tuning else None
    summary: dict[str, Any] = {"finite": True, "theory_step": expected, "angle_at_theory_step": None, **NO_NULL}
    if 0 in moments:
        observer.measure(0)
    batches = itertools.chain.from_iterable(task.batches.epoch(seed, epoch) for epoch in range(config.epochs))
    for step in training(batches, rule, Update(optimizer)):
        done = step.index + 1
        if not bool(torch.isfinite(step.loss).all()):
            summary["finite"] = False
            break
        if done in moments:
            row = observer.measure(done)
            work.say(f"loss {row['training_loss']:.3g}, accuracy {row['test_accuracy']:.3f}")
        if done == expected:
            summary["angle_at_theory_step"] = max(feedback_angles(rule).values())
        if done % max(1, config.steps // TICKS) == 0:
            work.tick(max(1, config.steps // TICKS))
    finite = summary["finite"]
    summary |= {
        "test_accuracy": accuracy(net, *task.test) if finite else None,
        "validation_accuracy": accuracy(net, *task.validation) if finite else None,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "classes": task.classes,
        "data_digest": task.digest,
    }
    if feedback := rule.feedback_tensors():
        summary["feedback_law"] = rule.feedback_law or None
        summary["feedback_seed"], summary["feedback_hash"] = seed, feedback_hash(feedback.values())
    if tuning:
        return RunResult({}, summary)
    series = observer.series()
    summary |= observer.numbers()
    if finite:
        numbers, null = observer.null(config.draws, seed)
        summary, series = summary | numbers, series | null
    return RunResult(series, summary)


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
        flow: dict[str, Any] = diagnose(self.net, *self.task.fitted, None)
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
            "stream_norm": {f"h_{number}": float(size) for number, size in enumerate(flow["hidden_norms"])},
            "gradient_per_error": float(flow["grad_norms"][-1]) / (float(flow["error_norm"]) or math.nan),
        }
        self.rows.append(row)
        return row

    def series(self) -> dict[str, RunSeries]:
        """Returns the rows as series; a quantity with a value per site has one column per site."""
        steps = np.array([row["step"] for row in self.rows])
        series = {name: RunSeries(steps, np.array([row[name] for row in self.rows])) for name in PLAIN}
        for name in SITED:
            sites = tuple(self.rows[0][name])
            if sites:
                values = np.array([[row[name][site] for site in sites] for row in self.rows])
                series[name] = RunSeries(steps, values, sites)
        return series

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
