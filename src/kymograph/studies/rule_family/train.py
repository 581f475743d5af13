"""Training one network with one rule, and measuring it at log-spaced steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.feedback_angle import feedback_angles
from kymograph.analysis.flow import accuracy
from kymograph.models.flat import FlatNetwork
from kymograph.rules import make
from kymograph.rules.base import Rule
from kymograph.rules.feedback import feedback_hash
from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.runs.tuned import tuned_study
from kymograph.studies.rule_family import RuleFamilyConfig
from kymograph.studies.rule_family.networks import family_network
from kymograph.studies.rule_family.observer import NO_NULL, Observer, measured_steps
from kymograph.studies.rule_family.tasks import FamilyTask, family_task
from kymograph.studies.rule_family.theory import steps_to_angle
from kymograph.sweep.compute import Workplace
from kymograph.training.loop import train as training
from kymograph.training.optimizers import AdamW
from kymograph.training.update import Update

TICKS = 10
"""How often a run reports its progress."""


def train(specs: Sequence[RunSpec[RuleFamilyConfig]], work: Workplace) -> list[RunResult]:
    """Trains the runs one after the other."""
    return [_run(spec, work) for spec in specs]


def _run(spec: RunSpec[RuleFamilyConfig], work: Workplace) -> RunResult:
    """Trains one network; a tuning run is measured only at its end."""
    config, seed = spec.config, spec.seed
    task = family_task(config, seed, work.device, work.data_dir)
    net = family_network(config, task, seed).to(work.device)
    flat = FlatNetwork(net)
    draw = streams.generator(seed, "feedback")
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
    for step in training(_batches(config, task, seed), rule, Update(optimizer)):
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
        **_feedback_identity(rule, seed),
    }
    if tuning:
        return RunResult({}, summary)
    series = observer.series()
    summary |= observer.numbers()
    if finite:
        numbers, null = observer.null(config.draws, seed)
        summary, series = summary | numbers, series | null
    return RunResult(series, summary)


def _batches(config: RuleFamilyConfig, task: FamilyTask, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    for epoch in range(config.epochs):
        yield from task.batches.epoch(seed, epoch)


def _feedback_identity(rule: Rule, seed: int) -> dict[str, Any]:
    """Returns what identifies the feedback: its law, its seed and its hash at the end."""
    feedback = rule.feedback_tensors()
    if not feedback:
        return {}
    return {
        "feedback_law": rule.feedback_law or None,
        "feedback_seed": seed,
        "feedback_hash": feedback_hash(feedback.values()),
    }
