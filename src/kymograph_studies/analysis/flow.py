"""Norms, gradients and cosines of credit along the stream of a network on a fixed buffer of images."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kymograph.quantities import as_float64, cosine, evaluation_mode, norms
from kymograph_studies.analysis.metrics import median_norm
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.rules.losses import output_error

BUFFER = 1024
CHUNK = 2000


@contextmanager
def untouched(net: nn.Module) -> Iterator[None]:
    """Runs a ``with`` block with ``net`` in evaluation mode, then restores its modes and gradients."""
    kept = {parameter: parameter.grad for parameter in net.parameters()}
    for parameter in kept:
        parameter.grad = None
    try:
        with evaluation_mode(net), torch.enable_grad():
            yield
    finally:
        for parameter, gradient in kept.items():
            parameter.grad = gradient


def flow(net: BlockNetwork, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    """Returns h_0..h_L, the logits, and each image's gradient of its own loss at h_0..h_L; without side effects."""
    with untouched(net):
        _, points = net.walk(net.embed(x).detach().requires_grad_())
        logits = net.readout(points[-1])
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        gradients = torch.autograd.grad(loss, points)
    return [point.detach() for point in points], logits.detach(), list(gradients)


def float64_cosines(net: BlockNetwork, gradients: Sequence[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
    """Returns, at each of h_0..h_L, every image's cosine (n,) of its gradient with the same gradient in float64.

    ``gradients`` are as measured, (n, d) each. They are recomputed, and the cosines returned, on the CPU, because not
    every device has float64.
    """
    exact = flow(copy.deepcopy(net).cpu().double(), x.cpu().double(), y.cpu())[2]
    return [cosine(gradient.cpu(), net.measured(other)) for gradient, other in zip(gradients, exact, strict=True)]


def diagnose(
    net: BlockNetwork, x: Tensor, y: Tensor, credit: Callable[[Tensor, int], Tensor] | None
) -> dict[str, list[float] | float]:
    """Returns medians over samples of ||h_l|| and ||g_l||, l = 0..L, and the cosines of credit; without side effects.

    g_l is each sample's gradient of *its own* loss at h_l, so it does not shrink with the size of the buffer; the
    scripts' scale, the gradient of the mean loss, is that divided by the number of samples. ``credit`` maps the
    output error (B, classes) and a block's index to the credit that a rule would hand it, (B, width).

    ``cos_in`` compares block l's credit with the gradient at its input h_l, as the script does; ``cos_out`` with that
    at its output h_{l+1}, on which it actually acts. Both are means over the samples that have a cosine;
    ``below_floor`` is the share of samples, over all blocks, whose gradient or credit has no direction.
    """
    points, logits, gradients = flow(net, x, y)
    losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    error = output_error(logits, y)
    hidden = [net.measured(point) for point in points]
    measured = [net.measured(gradient) for gradient in gradients]
    sizes = [norms(vectors) for vectors in measured]
    result: dict[str, list[float] | float] = {
        "hidden_norms": [float(median_norm(vectors)) for vectors in hidden],
        "grad_norms": [float(size.median()) for size in sizes],
        "grad_norms_F": [float(size.square().sum().sqrt()) for size in sizes],
        "acc_eval": float(correct(logits, y).mean()),
        "loss_eval": float(as_float64(losses).mean()),
        "error_norm": float(median_norm(error)),
    }
    if credit is not None:
        inside, outside, missing = [], [], 0
        for number in range(len(net.blocks)):
            signal = credit(error, number)
            both = []
            for target in (gradients[number], gradients[number + 1]):
                cosines = cosine(net.measured(net.spread(signal, target).contiguous()), net.measured(target))
                missing += int(cosines.isnan().sum())
                both.append(float(cosines.nanmean()))
            inside.append(both[0])
            outside.append(both[1])
        result |= {
            "cos_in": inside,
            "cos_out": outside,
            "below_floor": missing / (2 * len(net.blocks) * len(y)),
            "gamma": float(torch.tensor(inside, dtype=torch.float64).mean()),
        }
    return result


def accuracy(net: BlockNetwork, x: Tensor, y: Tensor) -> float:
    """Returns the share of images that are classified correctly; NaN if any output is not finite."""
    return float(_correct_in_chunks(net, x, y).mean())


def correct_images(net: BlockNetwork, x: Tensor, y: Tensor) -> Tensor:
    """Returns whether each image is classified correctly, (n,) bool; False where the outputs are not finite."""
    return _correct_in_chunks(net, x, y) == 1


def _correct_in_chunks(net: BlockNetwork, x: Tensor, y: Tensor) -> Tensor:
    with evaluation_mode(net), torch.no_grad():
        return torch.cat([correct(net(a), b) for a, b in zip(x.split(CHUNK), y.split(CHUNK), strict=True)])


def correct(logits: Tensor, y: Tensor) -> Tensor:
    """Returns 1 for each correct image, else 0, (B,) on the CPU; NaN where the logits are not all finite."""
    right = (logits.argmax(-1) == y).cpu().double()
    return right.masked_fill(~logits.isfinite().all(-1).cpu(), float("nan"))
