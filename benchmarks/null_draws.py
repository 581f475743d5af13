"""A draw of the fresh-B null, the script's way and ours, on a network of the published size."""

from __future__ import annotations

import functools
import time

import torch
from torch import Tensor

from benchmarks.epochs import CLASSES, DEPTH, WIDTH
from kymograph_studies.analysis.calibration import calibrate
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.rules.feedback import draw_feedback

IMAGES, SCRIPT_DRAWS, FEW_DRAWS, OUR_DRAWS = 2048, 5, 19, 999


@functools.cache
def network() -> tuple[BlockNetwork, Tensor, Tensor]:
    """Returns a network, images and labels; the time does not depend on their values."""
    draw = torch.Generator().manual_seed(0)
    net = ResidualMLP(3, 32, CLASSES, DEPTH, WIDTH)
    initialise(net, draw)
    return net, torch.randn(IMAGES, 3072, generator=draw), torch.randint(0, CLASSES, (IMAGES,), generator=draw)


def script_draw() -> float:
    """Returns the seconds of a draw the script's way: the gradients again, then a cosine per layer."""
    net, x, y = network()
    started = time.perf_counter()
    for number in range(SCRIPT_DRAWS):
        feedback = draw_feedback(torch.Generator().manual_seed(number), [WIDTH] * DEPTH, CLASSES)
        _, points = net.walk(net.embed(x).detach().requires_grad_())
        logits = net.readout(points[-1])
        gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), points)
        with torch.no_grad():
            error = logits.softmax(-1)
            error[torch.arange(len(y)), y] -= 1
            for point, gradient in enumerate(gradients):
                credit = error @ feedback[min(point, DEPTH - 1)].T
                product = (credit * gradient).sum(-1)
                (product / (credit.norm(dim=-1) * gradient.norm(dim=-1)).clamp(min=1e-30)).mean().item()
    return (time.perf_counter() - started) / SCRIPT_DRAWS


def our_draw() -> float:
    """Returns the seconds of one more draw our way: the time that draws 20 to 999 add to a calibration, per draw."""
    return (calibration(OUR_DRAWS) - calibration(FEW_DRAWS)) / (OUR_DRAWS - FEW_DRAWS)


def calibration(draws: int = OUR_DRAWS) -> float:
    """Returns the seconds of a whole calibration against fresh matrices, gradients and float64 recheck included."""
    net, x, y = network()
    feedback = draw_feedback(torch.Generator().manual_seed(0), [WIDTH] * DEPTH, CLASSES)
    started = time.perf_counter()
    calibrate(net, feedback, x, y, draws, nulls=("fresh",))
    return time.perf_counter() - started
