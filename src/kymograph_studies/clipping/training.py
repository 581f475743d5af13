"""Training a stack of `clipping` runs, and measuring what the script only announced or could not tell.

*Learning.* The script looked at the final accuracy on its training data. That is 0 where the rare class cannot be
learned and 0.9 in almost every run where it can, so it distinguishes nothing. Measured here, on held-out samples, is a
quantity that changes with every step: the probability given to the rare class. With four tokens, accuracy takes few
values, and a quarter of all untrained networks classify the rare token correctly by luck.

*Spikes.* Do large gradients sit at rare samples, how often are they clipped, and how much movement comes from them? A
step is *rare* if its batch holds a rare sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kymograph import RunResult, RunSeries, RunSpec, Workplace
from kymograph._statistics.effects import auc
from kymograph._statistics.intervals import wilson_interval
from kymograph_studies.analysis.metrics import (
    class_cross_entropy,
    class_probability,
    effective_dimension,
    largest_effective_dimension,
    recall,
    roughness,
    total_variance,
)
from kymograph_studies.clipping import ClippingConfig
from kymograph_studies.data.generated import (
    RARE_CLASS,
    TokenTask,
    learnable_held_out,
    learnable_tokens,
    script_held_out,
    script_tokens,
)
from kymograph_studies.models.replicas import NextToken, TokenBatch, TokenTargets, initial_weights
from kymograph_studies.rules import make
from kymograph_studies.rules.losses import replica_cross_entropy
from kymograph_studies.training.loop import Clip, ClipByNorm, ClipByPercentile, ClipByValue, Update, WeightTrace
from kymograph_studies.training.loop import train as training
from kymograph_studies.training.optimizers import SgdPerReplica

EARLY_RARE_SAMPLES = 20
"""The number of rare samples seen by the end of *early* training: the same exposure at every imbalance.

Two epochs at 99:1, a tenth of an epoch at 80:20. Chosen in pilot runs at other seeds than those of the study, with both
arms pooled: with 10, some runs at 99:1 had not begun to learn (0.5 % of what there is to learn); with 50, runs at
80:20 spent most of the time at the ceiling. With 20, none of 400 runs was within 1 % of the floor or the ceiling."""
LEARNED = 0.75
"""The share of the Bayes predictor's accuracy at which the rare class counts as learned.

High enough that luck does not pass for learning: one untrained network in 2,000 is above it. With half the Bayes
predictor's accuracy it would be 4 %, so that in a third of all sets of ten seeds, some network would have learned the
class before training. In the pilot runs, every run reached the level and none started above it."""
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

    losses: list[Tensor] = []
    norms: list[Tensor] = []
    clipped: list[Tensor] = []
    answers: list[Tensor] = []
    epoch = epoch_batches(tasks, shape.batch_size, shape.dim, device)
    batches = itertools.chain.from_iterable(itertools.repeat(epoch, shape.epochs))
    for step in training(batches, rule, update):
        trace.record()
        losses.append(step.loss)
        assert step.grad_norm is not None  # `update` was asked for norms
        norms.append(step.grad_norm)
        if step.clipped is not None:  # it is None if no run of the stack is clipped
            clipped.append(step.clipped)
        if step.index % _steps_between_readings(shape) == 0:
            answers.append(net.token_logits(net.flat.values))  # (R, token, class)
        if (step.index + 1) % TICK_EVERY == 0:
            work.tick(TICK_EVERY)
            work.say(f"median loss {float(step.loss.median()):.3g}")
    work.tick(len(losses) % TICK_EVERY)

    per_step = {  # (steps, R)
        "loss": _numpy(torch.stack(losses)),
        "grad_norm": _numpy(torch.stack(norms)),
        "weight_norm": _numpy(trace.norms()),
        "update_norm": _numpy(trace.moves()),
        "clipped": _numpy(torch.stack(clipped)).astype(np.uint8)
        if clipped
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
    for x, y in zip(torch.split(inputs, size, 1), torch.split(targets, size, 1), strict=True):  # (R, B)
        tokens = TokenBatch(x[..., None].expand(*x.shape, dim), (x[:, None] == classes[:, None]).float())
        batches.append((tokens, TokenTargets(y.reshape(-1), (y[..., None] == classes).float())))
    return batches


def rare_counts(tasks: Sequence[TokenTask], size: int, epochs: int) -> np.ndarray:
    """Returns how many rare samples each step saw, shape (steps, R)."""
    rare = torch.stack([task.targets == RARE_CLASS for task in tasks])  # (R, samples)
    epoch = torch.stack([batch.sum(1) for batch in torch.split(rare, size, 1)])
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


def spike_analysis(
    grad_norm: np.ndarray, clipped: np.ndarray, update_norm: np.ndarray, rare_count: np.ndarray
) -> dict[str, float]:
    """Returns gradient, clipping and movement at rare steps against common ones, all inputs of shape (steps,).

    * ``rare_grad_norm``, ``common_grad_norm``: median norm before clipping, and ``spike_ratio``, their quotient;
    * ``spike_auc``: the probability that a rare step has a larger gradient than a common one (ties count half);
    * ``rare_clip_fraction``, ``common_clip_fraction``: the fraction of steps that were clipped;
    * ``rare_effective_lr``, ``common_effective_lr``: median of movement over gradient;
    * ``rare_step_share``, ``rare_movement_share``: the rare steps' share of all steps and of the path length.

    Where one kind of step is absent, its numbers are NaN.
    """
    rare = rare_count > 0
    result = {}
    for kind, steps in (("rare", rare), ("common", ~rare)):
        norms, moves = grad_norm[steps].astype(np.float64), update_norm[steps]
        moving = norms > 0
        result[f"{kind}_grad_norm"] = _median(norms)
        result[f"{kind}_clip_fraction"] = float(clipped[steps].mean()) if steps.any() else np.nan
        result[f"{kind}_effective_lr"] = _median(moves[moving] / norms[moving])
    result["spike_ratio"] = (
        result["rare_grad_norm"] / result["common_grad_norm"] if result["common_grad_norm"] > 0 else np.nan
    )
    result["spike_auc"] = auc(grad_norm[rare], grad_norm[~rare])
    total = float(update_norm.sum())
    result["rare_step_share"] = float(rare.mean())
    result["rare_movement_share"] = float(update_norm[rare].sum()) / total if total > 0 else np.nan
    return result


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else np.nan


def learning_analysis(
    steps: np.ndarray, rare_prob: np.ndarray, rare_count: np.ndarray, bayes: float
) -> dict[str, float]:
    """Returns how well the rare class is predicted while it is being learned, and when it is learned.

    * ``early_rare_prob``: the mean of ``rare_prob`` over training until ``EARLY_RARE_SAMPLES`` rare samples were
      trained on (or the run ends);
    * ``early_rare_prob_share``: the same as a share of the Bayes predictor's accuracy, so that 0 is the floor and 1 the
      ceiling;
    * ``rare_steps_to_learn``: the first measured step at which ``rare_prob`` is at least ``LEARNED`` times the Bayes
      predictor's accuracy; NaN if it never is, or if there is nothing to learn.

    Args:
        steps: the steps at which predictions were read, shape (readings,).
        rare_prob: the mean probability of the rare class at held-out rare samples, shape (readings,).
        rare_count: rare samples in each step's batch, shape (all steps,).
        bayes: the Bayes predictor's accuracy on the held-out rare samples.
    """
    seen = np.cumsum(rare_count)
    early = float(rare_prob[steps <= np.searchsorted(seen, EARLY_RARE_SAMPLES)].mean())
    return {
        "early_rare_prob": early,
        "early_rare_prob_share": early / bayes if bayes > 0 else np.nan,
        "rare_steps_to_learn": steps_to_reach(steps, rare_prob, LEARNED * bayes) if bayes > 0 else np.nan,
    }


def excess_loss(rare_loss: float, rare_frequency: float) -> float:
    """Returns a cross-entropy at rare samples minus that of a predictor that knows only the classes' frequencies.

    Below 0, the rare class is predicted better than by its frequency. NaN if there is no rare class.

    >>> round(excess_loss(5.0, 0.01), 3)
    0.395
    """
    return rare_loss + float(np.log(rare_frequency)) if rare_frequency > 0 else np.nan


def steps_to_reach(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """Returns the first of ``steps`` whose value is at least ``level``; NaN, not 0, if none is.

    >>> steps_to_reach(np.array([0, 10, 20]), np.array([0.1, 0.6, 0.4]), 0.5)
    10.0
    """
    reached = np.flatnonzero(values >= level)
    return float(steps[reached[0]]) if len(reached) else np.nan


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
