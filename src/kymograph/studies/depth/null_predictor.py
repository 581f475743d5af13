"""Trained stacks on fresh data: their loss relative to that of the null predictor, which always outputs 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph import streams
from kymograph.data.vectors import random_orthogonal
from kymograph.models.stacks import LayerStack
from kymograph.probes.vectors import as_float64
from kymograph.runs.spec import RunSpec
from kymograph.shapes import Float
from kymograph.studies.depth import DepthConfig

FRESH_SAMPLES = 1024
"""As many as the script trains on: at width 64 the null predictor's loss then has a relative error of 0.35 %."""


def fresh_batch(
    seed: int, task: str, width: int
) -> tuple[Float[Tensor, "samples width"], Float[Tensor, "samples width"]]:
    """Returns inputs and targets of the task, each (samples, width), used neither in training nor in measurements.

    They have their own stream, so drawing them shifts no other random numbers; all arms of a seed share them.
    """
    draw = streams.generator(seed, "fresh data")
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
