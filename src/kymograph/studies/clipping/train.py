"""Training a stack of `clipping` runs and measuring it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kymograph.data.tokens import (
    RARE_CLASS,
    TokenTask,
    learnable_held_out,
    learnable_tokens,
    script_held_out,
    script_tokens,
)
from kymograph.models.next_token import NextToken, TokenBatch, TokenTargets, initial_weights
from kymograph.probes.measures.class_cross_entropy import class_cross_entropy
from kymograph.probes.measures.class_probability import class_probability
from kymograph.probes.measures.effective_dimension import effective_dimension, largest_effective_dimension
from kymograph.probes.measures.recall import recall
from kymograph.probes.measures.roughness import roughness
from kymograph.probes.measures.total_variance import total_variance
from kymograph.probes.trace import WeightTrace
from kymograph.rules import make
from kymograph.rules.losses import replica_cross_entropy
from kymograph.runs.record import RunResult, RunSeries
from kymograph.runs.spec import RunSpec
from kymograph.statistics.intervals import wilson_interval
from kymograph.studies.clipping import ClippingConfig
from kymograph.studies.clipping.learning import excess_loss, learning_analysis
from kymograph.studies.clipping.spikes import spike_analysis
from kymograph.sweep.compute import Workplace
from kymograph.training.clipping import Clip, ClipByNorm, ClipByPercentile, ClipByValue
from kymograph.training.loop import train as training
from kymograph.training.optimizers import SgdPerReplica
from kymograph.training.update import Update

TICK_EVERY = 250
HELD_OUT_PER_CLASS = 2000
"""Held-out samples of each class: enough that a frequency of 0.9 is known to 0.7 percentage points."""
READINGS_PER_PROBE = 10
"""How often predictions are read between two probes, so that learning times are known to 10 steps, not 100."""


@torch.inference_mode()
def train(specs: Sequence[RunSpec[ClippingConfig]], work: Workplace) -> list[RunResult]:
    """Trains all runs as one network with a leading replica axis; returns each run's series and summary."""
    device = work.device
    configs = [spec.config for spec in specs]
    shape = configs[0]
    tasks = [make_task(config, spec.seed) for config, spec in zip(configs, specs, strict=True)]

    net = NextToken(len(specs), shape.vocab, shape.dim, device)
    for replica, spec in enumerate(specs):
        net.flat.fill(replica, initial_weights(spec.seed, shape.vocab, shape.dim))
    rule = make("bp", net, loss=replica_cross_entropy)
    optimizer = SgdPerReplica(net.flat, _per_replica([config.lr for config in configs], device))
    update = Update(optimizer, make_clips(configs, device), norms=True)
    trace = WeightTrace(net.flat.values, shape.probe_every)

    losses, norms, clipped, answers = [], [], [], []
    epoch = epoch_batches(tasks, shape.batch_size, shape.dim, device)
    batches = itertools.chain.from_iterable(itertools.repeat(epoch, shape.epochs))
    for step in training(batches, rule, update):
        trace.record()
        losses.append(step.loss)
        norms.append(step.grad_norm)
        clipped.append(step.clipped)
        if step.index % _steps_between_readings(shape) == 0:
            answers.append(net.token_logits(net.flat.values))  # (R, token, class)
        if (step.index + 1) % TICK_EVERY == 0:
            work.tick(TICK_EVERY)
            work.say(f"median loss {float(step.loss.median()):.3g}")
    work.tick(len(losses) % TICK_EVERY)

    per_step = {  # (steps, R)
        "loss": _numpy(torch.stack(losses)),
        "grad_norm": _numpy(torch.stack(norms)),  # type: ignore[arg-type]
        "weight_norm": _numpy(trace.norms()),
        "update_norm": _numpy(trace.moves()),
        "clipped": _numpy(torch.stack(clipped)).astype(np.uint8)  # type: ignore[arg-type]
        if clipped[0] is not None
        else np.zeros((len(losses), len(specs)), np.uint8),
        "rare_count": rare_counts(tasks, shape.batch_size, shape.epochs),
    }
    kept = trace.kept().cpu()  # (probes, R, P)
    embeddings = net.embeddings(kept)
    counts = torch.stack([task.counts() for task in tasks])  # (R, class, token)
    held_out = torch.stack(
        [make_held_out(config, spec.seed).counts() for config, spec in zip(configs, specs, strict=True)]
    )
    predictions = net.token_logits(kept).argmax(-1)
    per_probe = {
        "effective_dim": _numpy(effective_dimension(embeddings)),
        "embedding_variance": _numpy(total_variance(embeddings)),
        "accuracy": _numpy(recall(predictions, counts)),
        "heldout_rare_acc": _numpy(recall(predictions, held_out)[..., RARE_CLASS]),
    }
    logits = torch.stack(answers).cpu()  # (readings, R, token, class)
    last_epoch = logits[-max(1, len(epoch) // _steps_between_readings(shape)) :]
    per_reading = {"heldout_rare_prob": _numpy(class_probability(logits, held_out)[..., RARE_CLASS])}
    per_run = {  # (R,)
        "rare_loss": _numpy(class_cross_entropy(last_epoch, counts)[..., RARE_CLASS].mean(0)),
        "heldout_rare_loss": _numpy(class_cross_entropy(last_epoch, held_out)[..., RARE_CLASS].mean(0)),
        "heldout_bayes": _numpy(recall(torch.stack([task.bayes_answers() for task in tasks]), held_out)[:, RARE_CLASS]),
    }
    return [
        _result(
            config,
            task,
            {k: v[:, r] for k, v in per_step.items()},
            {k: v[:, r] for k, v in per_probe.items()},
            {k: v[:, r] for k, v in per_reading.items()},
            {k: float(v[r]) for k, v in per_run.items()},
        )
        for r, (config, task) in enumerate(zip(configs, tasks, strict=True))
    ]


def make_task(config: ClippingConfig, seed: int) -> TokenTask:
    """Returns the data of one run; arms of one seed and imbalance share it."""
    if config.data == "script":
        return script_tokens(seed, config.n_samples, config.n_rare, config.vocab)
    return learnable_tokens(seed, config.n_samples, config.n_rare, config.vocab, config.label_noise)


def make_held_out(config: ClippingConfig, seed: int) -> TokenTask:
    """Returns fresh samples from the distribution of one run's data, never trained on; arms of one seed share them."""
    if config.data == "script":
        return script_held_out(seed, HELD_OUT_PER_CLASS, config.vocab)
    return learnable_held_out(
        seed, HELD_OUT_PER_CLASS, config.n_samples, config.n_rare, config.vocab, config.label_noise
    )


def make_clips(configs: Sequence[ClippingConfig], device: str) -> list[Clip]:
    """Returns the kinds of clipping in a stack; for replicas without a kind, its threshold is infinite."""

    def threshold(kind: str, field: str) -> Tensor | None:
        if all(config.clip != kind for config in configs):
            return None
        return _per_replica([getattr(c, field) if c.clip == kind else float("inf") for c in configs], device)

    clips: list[Clip] = []
    if (max_norm := threshold("norm", "max_norm")) is not None:
        clips.append(ClipByNorm(max_norm))
    if (max_value := threshold("value", "max_value")) is not None:
        clips.append(ClipByValue(max_value))
    if (percentile := threshold("percentile", "percentile")) is not None:
        windows = [config.window for config in configs if config.clip == "percentile"]
        clips.append(ClipByPercentile(percentile, windows[0]))
    return clips


def epoch_batches(
    tasks: Sequence[TokenTask], size: int, dim: int, device: str
) -> list[tuple[TokenBatch, TokenTargets]]:
    """Returns the batches of one epoch, in data order, for all replicas; the last may be short."""
    inputs = torch.stack([task.inputs for task in tasks]).to(device)  # (R, samples)
    targets = torch.stack([task.targets for task in tasks]).to(device)
    classes = torch.arange(tasks[0].vocab, device=device)
    batches = []
    for x, y in zip(inputs.split(size, 1), targets.split(size, 1), strict=True):  # (R, B)
        tokens = TokenBatch(x[..., None].expand(*x.shape, dim), (x[:, None] == classes[:, None]).float())
        batches.append((tokens, TokenTargets(y.reshape(-1), (y[..., None] == classes).float())))
    return batches


def rare_counts(tasks: Sequence[TokenTask], size: int, epochs: int) -> np.ndarray:
    """Returns how many rare samples each step saw, shape (steps, R)."""
    rare = torch.stack([task.targets == RARE_CLASS for task in tasks])  # (R, samples)
    epoch = torch.stack([batch.sum(1) for batch in rare.split(size, 1)])
    return _numpy(epoch.repeat(epochs, 1)).astype(np.int32)


def _result(
    config: ClippingConfig,
    task: TokenTask,
    per_step: dict[str, np.ndarray],
    per_probe: dict[str, np.ndarray],
    per_reading: dict[str, np.ndarray],
    per_run: dict[str, float],
) -> RunResult:
    weight_norm = per_step["weight_norm"]
    # As in the script, the first step has no predecessor and counts as no change.
    change = np.abs(np.diff(weight_norm, prepend=weight_norm[:1]))
    steps = np.arange(len(weight_norm))
    probes = np.arange(0, len(steps), config.probe_every)
    readings = np.arange(0, len(steps), _steps_between_readings(config))
    series = {name: RunSeries(steps, np.ascontiguousarray(value)) for name, value in per_step.items()}
    series["weight_norm_change"] = RunSeries(steps, change)
    series["effective_dim"] = RunSeries(probes, per_probe["effective_dim"])
    series["embedding_variance"] = RunSeries(probes, per_probe["embedding_variance"])
    series["accuracy"] = RunSeries(
        probes, per_probe["accuracy"], tuple(f"class_{number}" for number in range(config.vocab))
    )
    series["heldout_rare_acc"] = RunSeries(probes, np.ascontiguousarray(per_probe["heldout_rare_acc"]))
    series |= {name: RunSeries(readings, np.ascontiguousarray(value)) for name, value in per_reading.items()}
    rare_accuracy = float(per_probe["accuracy"][-1, RARE_CLASS])
    low, high = wilson_interval(rare_accuracy * config.n_rare, config.n_rare)
    best = task.bayes_recall()
    effective_dim = per_probe["effective_dim"]
    summary = {
        "weight_norm_std": float(weight_norm.std()),
        "weight_norm_roughness": float(roughness(torch.from_numpy(weight_norm))),
        "weight_change_mean": float(change.mean()),
        "weight_change_max": float(change.max()),
        "grad_norm_max": float(per_step["grad_norm"].max()),
        "clipping_ratio": clipping_ratio(config, float(per_step["grad_norm"].max())),
        "effective_dim_std": float(effective_dim.std()),
        "effective_dim_roughness": float(roughness(torch.from_numpy(effective_dim))),
        "effective_dim_change": float(effective_dim[-1] - effective_dim[0]),
        "effective_dim_limit": largest_effective_dimension(config.vocab, config.dim),
        "final_rare_acc": rare_accuracy,
        "final_rare_acc_low": low,
        "final_rare_acc_high": high,
        "bayes_rare_acc": float(best[RARE_CLASS]),
        "majority_acc": float(task.counts().sum(1).max() / config.n_samples),
        "final_loss": float(per_step["loss"][-1]),
        "finite": bool(np.isfinite(per_step["loss"]).all() and np.isfinite(weight_norm).all()),
        "clip_fraction": float(per_step["clipped"].mean()),
        **spike_analysis(per_step["grad_norm"], per_step["clipped"], per_step["update_norm"], per_step["rare_count"]),
        "heldout_bayes_rare_acc": per_run["heldout_bayes"],
        "final_heldout_rare_acc": float(per_probe["heldout_rare_acc"][-1]),
        **learning_analysis(
            readings, per_reading["heldout_rare_prob"], per_step["rare_count"], per_run["heldout_bayes"]
        ),
        "rare_excess_loss": excess_loss(per_run["rare_loss"], config.n_rare / config.n_samples),
        "heldout_rare_excess_loss": excess_loss(per_run["heldout_rare_loss"], config.n_rare / config.n_samples),
    }
    return RunResult(series, summary)


def clipping_ratio(config: ClippingConfig, grad_norm_max: float) -> float:
    """Returns the largest gradient norm over the threshold of clipping by norm; NaN for another kind of clipping.

    The script prints this number for the run without clipping, "x threshold", with its threshold of 1 (line 512).
    """
    return grad_norm_max / config.max_norm if config.clip in ("none", "norm") else float("nan")


def _steps_between_readings(config: ClippingConfig) -> int:
    return max(1, config.probe_every // READINGS_PER_PROBE)


def _per_replica(values: Sequence[float], device: str) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
