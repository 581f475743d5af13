"""What flows through a cut network on a fixed buffer of images: norms, gradients and the cosine of credit with them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork
from kymograph.probes import measures
from kymograph.probes.sites import untouched
from kymograph.rules.direct import output_error

BUFFER = 1024
CHUNK = 2000


def flow(net: BlockNetwork, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    """Returns h_0..h_L, the logits, and each image's gradient of its own loss at h_0..h_L; leaves no trace."""
    with untouched(net):
        points = [net.embed(x).detach().requires_grad_()]
        for block in net.blocks:
            points.append(net.join(points[-1], block(points[-1])))
        logits = net.readout(points[-1])
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        gradients = torch.autograd.grad(loss, points)
    return [point.detach() for point in points], logits.detach(), list(gradients)


def in_float64(net: BlockNetwork, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    """Returns what `flow` does, computed throughout in float64 on the CPU."""
    return flow(copy.deepcopy(net).cpu().double(), x.cpu().double(), y.cpu())


def diagnose(
    net: BlockNetwork, x: Tensor, y: Tensor, credit: Callable[[Tensor, int], Tensor] | None
) -> dict[str, list[float] | float]:
    """Returns medians over samples of ||h_l|| and ||g_l|| for l = 0..L, and the credit's cosines; leaves no trace.

    g_l is each sample's gradient of *its own* loss at h_l, so it does not shrink with the size of the buffer; the
    scripts' scale, the gradient of the mean loss, is that divided by the number of samples. ``credit`` maps the
    output error (B, classes) and a block's number to the credit that a rule would hand it, (B, width).

    ``cos_in`` compares block l's credit with the gradient at its input h_l, as the script does; ``cos_out`` with that
    at its output h_{l+1}, on which it really acts. Both are means over the samples that have a cosine;
    ``below_floor`` is the share of samples, over all blocks, whose gradient or credit has no direction.
    """
    points, logits, gradients = flow(net, x, y)
    losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    hidden = [net.measured(point.detach()) for point in points]
    measured = [net.measured(gradient) for gradient in gradients]
    norms = [torch.linalg.vector_norm(measures.as_float64(vectors), dim=-1) for vectors in measured]
    result: dict[str, list[float] | float] = {
        "hidden_norms": [_median(torch.linalg.vector_norm(measures.as_float64(vectors), dim=-1)) for vectors in hidden],
        "grad_norms": [_median(norm) for norm in norms],
        "grad_norms_F": [float(norm.square().sum().sqrt()) for norm in norms],
        "acc_eval": float(hits(logits, y).mean()),
        "loss_eval": float(measures.as_float64(losses).mean()),
    }
    error = output_error(logits, y)
    result["error_norm"] = _median(torch.linalg.vector_norm(measures.as_float64(error), dim=-1))
    if credit is not None:
        inside, outside, missing = [], [], 0
        for number in range(len(net.blocks)):
            signal = credit(error, number)
            both = []
            for place in (number, number + 1):
                target = gradients[place]
                cosines = measures.cosine(net.measured(net.spread(signal, target).contiguous()), net.measured(target))
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
    """Returns the share of images whose class is the network's first choice; NaN if some output is not finite."""
    with untouched(net), torch.no_grad():
        return float(torch.cat([hits(net(a), b) for a, b in zip(x.split(CHUNK), y.split(CHUNK), strict=True)]).mean())


def hits(logits: Tensor, y: Tensor) -> Tensor:
    """Returns 1 or 0 for each image, NaN where there is no first choice: `argmax` would name class 0."""
    right = (logits.argmax(-1) == y).cpu().double()
    return right.masked_fill(~logits.isfinite().all(-1).cpu(), float("nan"))


def _median(values: Tensor) -> float:
    return float(values.median())
