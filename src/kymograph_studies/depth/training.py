"""Training a stack of `depth` runs and measuring it along depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import kymograph as ky
from kymograph import KymographError, RunResult, RunSeries, RunSpec, Workplace
from kymograph._shapes import Float
from kymograph.quantities import as_float64
from kymograph_studies.analysis.flow import untouched
from kymograph_studies.analysis.metrics import gain, median_norm
from kymograph_studies.data.generated import batch_indices, random_orthogonal, vector_task
from kymograph_studies.depth import DepthConfig
from kymograph_studies.models.replicas import LayerStack, Wiring, initial_layers
from kymograph_studies.rules import make
from kymograph_studies.rules.losses import replica_squared_error
from kymograph_studies.training.loop import Update
from kymograph_studies.training.loop import train as training
from kymograph_studies.training.optimizers import Adam

FRESH_SAMPLES = 1024
"""As many as the script trains on: at width 64 the null predictor's loss then has a relative error of 0.35 %."""
TICK_EVERY = 10
Reduce = Callable[[Tensor], Tensor]


def train(specs: Sequence[RunSpec[DepthConfig]], work: Workplace) -> list[RunResult]:
    """Trains all runs as one network with a leading replica axis; returns each run's series and summary."""
    device = work.device
    configs = [spec.config for spec in specs]
    shape = configs[0]
    net = make_net(configs, [spec.seed for spec in specs], device)
    tasks = [
        vector_task(spec.seed, config.task, config.n_samples, config.width, config.probe_size)
        for config, spec in zip(configs, specs, strict=True)
    ]
    inputs, targets, *probe = (  # (R, samples, width)
        torch.stack([getattr(task, part) for task in tasks]).to(device)
        for part in ("inputs", "targets", "probe_inputs", "probe_targets")
    )
    order = torch.stack(
        [batch_indices(spec.seed, shape.steps, shape.batch_size, shape.n_samples) for spec in specs], dim=1
    ).to(device)  # (steps, R, batch)
    replicas = torch.arange(len(specs), device=device)[:, None]
    order = (order + replicas * shape.n_samples).flatten(1)  # rows of the replicas' concatenated samples

    def pick(samples: Tensor, rows: Tensor) -> Tensor:
        return samples.flatten(0, 1).index_select(0, rows).view(len(specs), shape.batch_size, shape.width)

    batches = ((pick(inputs, rows), pick(targets, rows)) for rows in order)

    losses: list[Tensor] = []
    probes = {0: diagnose(net, *probe)}
    rule = make("bp", net, loss=replica_squared_error)
    for step in training(batches, rule, Update(Adam(net.flat, shape.lr))):
        losses.append(step.loss)
        done = step.index + 1  # updates taken so far: 0 is the network before training
        if done % shape.probe_every == 0 or done == shape.steps:
            probes[done] = diagnose(net, *probe)
        if done % TICK_EVERY == 0:
            work.tick(TICK_EVERY)
            work.say(f"median loss {float(step.loss.median()):.3g}")
    work.tick(len(losses) % TICK_EVERY)

    loss = torch.stack(losses).cpu().numpy()  # (steps, R)
    steps = np.array(sorted(probes))
    readings = {name: torch.stack([probes[at][name] for at in steps]).cpu() for name in probes[0]}  # (probes, R, ...)
    parameters = sum(parameter.numel() for parameter in net.parameters()) // len(specs)
    fresh = against_null(net, specs, device)
    return [
        _result(
            config,
            task.probe_targets,
            loss[:, r],
            steps,
            {name: values[:, r] for name, values in readings.items()},
            {"parameters": parameters, **fresh[r]},
        )
        for r, (config, task) in enumerate(zip(configs, tasks, strict=True))
    ]


def make_net(configs: Sequence[DepthConfig], seeds: Sequence[int], device: str) -> LayerStack:
    """Returns a stack with the initial weights of each replica's seed, which all arms of the seed share."""
    shape = configs[0]
    learned = shape.branch == "zero" and shape.skip
    scales = tuple(
        None if not config.skip else 1 / math.sqrt(config.layers) if config.branch == "scaled" else 1.0
        for config in configs
    )
    net = LayerStack(shape.layers, shape.width, Wiring(scales, shape.prenorm, learned), device)
    for replica, seed in enumerate(seeds):
        net.flat.fill(replica, initial_layers(seed, shape.layers, shape.width, learned))
    return net


def diagnose(net: LayerStack, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns activation and gradient statistics on one fixed batch, each (replica, site), without side effects.

    Before each ReLU: mean, standard deviation and gradient norm, as in the script. On the stream itself, which
    has one more point than there are layers: the median over samples of ||h_l||, and the gradient norm.
    Gradients are of the mean loss, L2 over the whole batch.
    """
    norm = {"norm": lambda g: torch.linalg.vector_norm(as_float64(g), dim=(1, 2))}
    statistics = {"mean": lambda z: as_float64(z).mean(dim=(1, 2)), "std": _std}
    length = {"norm": median_norm}
    pre = {f"pre.{number}": block.get_submodule("affine") for number, block in enumerate(net.blocks)}
    stream = {f"h.{number + 1}": block for number, block in enumerate(net.blocks)}
    with untouched(net), watching(pre, statistics, norm) as before, watching(stream, length, norm) as after:
        x = x.detach().requires_grad_()
        loss = replica_squared_error(net(x), y)
        (at_input,) = torch.autograd.grad(loss.sum(), x)
    return {
        "pre_mean": _sites(before.outputs, pre, "mean"),
        "pre_std": _sites(before.outputs, pre, "std"),
        "grad_norm": _sites(before.gradients, pre, "norm"),
        "stream_norm": torch.cat([length["norm"](x.detach())[:, None], _sites(after.outputs, stream, "norm")], 1),
        "stream_grad": torch.cat([norm["norm"](at_input)[:, None], _sites(after.gradients, stream, "norm")], 1),
        "probe_loss": loss.detach(),
    }


class SiteReadings:
    """Reduced readings by site name: of the outputs, and of the gradients with respect to them."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, Tensor]] = {}
        self.gradients: dict[str, dict[str, Tensor]] = {}


@contextmanager
def watching(
    sites: Mapping[str, nn.Module], outputs: Mapping[str, Reduce], gradients: Mapping[str, Reduce]
) -> Iterator[SiteReadings]:
    """Attaches hooks to ``sites`` for a ``with`` block, and fills the readings during its passes.

    A forward hook reads the output, and a tensor hook on that output its gradient. Module backward hooks are never
    used, because they break on in-place operations. Tensors are reduced inside the hook and never kept, because a later
    in-place operation would overwrite them.

    Args:
        sites: modules, by the name under which their readings are kept.
        outputs: reductions of a site's output, by name.
        gradients: reductions of the gradient with respect to that output, by name.
    """
    readings = SiteReadings()

    def attach(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def forward_hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            if not isinstance(output, Tensor):
                kind = type(output).__name__
                raise KymographError(f"{name} returns a {kind}, not a tensor; watch a module that returns one")
            readings.outputs[name] = {key: reduce(output.detach()) for key, reduce in outputs.items()}
            if output.requires_grad and gradients:
                output.register_hook(backward_hook)

        def backward_hook(gradient: Tensor) -> None:
            readings.gradients[name] = {key: reduce(gradient.detach()) for key, reduce in gradients.items()}

        return forward_hook

    handles = [module.register_forward_hook(attach(name)) for name, module in sites.items()]
    try:
        yield readings
    finally:
        for handle in handles:
            handle.remove()


def _std(z: Tensor) -> Tensor:
    """Returns the standard deviation (n - 1) over batch and features, in a tenth of the time of ``z.std()``."""
    flat = as_float64(z).flatten(1)
    length: Tensor = torch.linalg.vector_norm(flat - flat.mean(1, keepdim=True), dim=1)
    return length / math.sqrt(flat.shape[1] - 1)


def _sites(readings: dict[str, dict[str, Tensor]], sites: Iterable[str], key: str) -> Tensor:
    """Returns one reading of every site, in the order of the sites, shape (R, sites)."""
    return torch.stack([readings[name][key] for name in sites], dim=1)


def fresh_batch(
    seed: int, task: str, width: int
) -> tuple[Float[Tensor, "samples width"], Float[Tensor, "samples width"]]:
    """Returns inputs and targets of the task, each (samples, width), used neither in training nor in measurements.

    They have their own stream, so drawing them shifts no other random numbers; all arms of a seed share them.
    """
    draw = ky.generator(seed, "fresh data")
    inputs = torch.empty(FRESH_SAMPLES, width).uniform_(-1.0, 1.0, generator=draw)
    return inputs, inputs.clone() if task == "identity" else inputs @ random_orthogonal(seed, width)


def against_null(net: LayerStack, specs: Sequence[RunSpec[DepthConfig]], device: str) -> list[dict[str, float]]:
    """Returns each replica's loss on its fresh batch, the null predictor's loss there, and the ratio of the two.

    Targets have mean 0, so 0 is the best constant output: a ratio of 1 means that nothing was learned.
    """
    batches = [fresh_batch(spec.seed, spec.config.task, spec.config.width) for spec in specs]
    inputs, targets = (torch.stack(part).to(device) for part in zip(*batches, strict=True))
    with torch.no_grad():
        errors = as_float64(net(inputs)) - as_float64(targets)
    losses = errors.square().mean(dim=(1, 2)).tolist()
    nulls = as_float64(targets).square().mean(dim=(1, 2)).tolist()
    return [
        {"fresh_loss": loss, "fresh_null_loss": null, "fresh_loss_over_null": loss / null}
        for loss, null in zip(losses, nulls, strict=True)
    ]


def _result(
    config: DepthConfig,
    targets: Tensor,
    loss: np.ndarray,
    steps: np.ndarray,
    readings: dict[str, Tensor],
    extra_summary: dict[str, float],
) -> RunResult:
    layers = tuple(f"layer_{number}" for number in range(1, config.layers + 1))
    stream = tuple(f"h_{number}" for number in range(config.layers + 1))
    series = {"loss": RunSeries(np.arange(len(loss)), np.ascontiguousarray(loss))}
    for name in ("pre_mean", "pre_std", "grad_norm"):
        series[name] = RunSeries(steps, readings[name].numpy(), layers)
    for name in ("stream_norm", "stream_grad"):
        series[name] = RunSeries(steps, readings[name].numpy(), stream)
    series["probe_loss"] = RunSeries(steps, readings["probe_loss"].numpy())
    gains = {
        "forward_gain": gain(readings["stream_norm"]),
        # From the output back to the input: above 1, gradients grow on their way down.
        "backward_gain": gain(readings["stream_grad"].flip(-1)),
        # The same before the ReLUs, where the script takes its gradients: from the last layer back to the first.
        "pre_backward_gain": gain(readings["grad_norm"].flip(-1)),
    }
    summary: dict[str, float | int | str | bool | None] = {
        "initial_loss": float(loss[0]),
        "final_loss": float(loss[-1]),
        "final_probe_loss": float(readings["probe_loss"][-1]),
        "mean_last_50_loss": float(loss[-50:].astype(np.float64).mean()),
        "solved_at_start": bool(readings["probe_loss"][0] == 0),
        # The loss of a network that outputs 0, and the lowest possible loss of one that ends in a ReLU.
        "null_loss": float(as_float64(targets).square().mean()),
        "floor_loss": 0.0 if config.skip else float(as_float64(targets).clamp(max=0).square().mean()),
        "finite": bool(np.isfinite(loss).all()),
        # The range that the script prints.
        "final_grad_norm_min": float(readings["grad_norm"][-1].min()),
        "final_grad_norm_max": float(readings["grad_norm"][-1].max()),
        **extra_summary,
    }
    for name, parts in gains.items():
        series[name] = RunSeries(steps, torch.stack(parts, -1).numpy(), ("estimate", "low", "high"))
        for moment, row in (("initial", 0), ("final", -1)):
            for part, values in zip(("", "_low", "_high"), parts, strict=True):
                summary[f"{moment}_{name}{part}"] = float(values[row])
    return RunResult(series, summary)
