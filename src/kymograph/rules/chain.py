"""The true chain from each block's output to the outputs, for one sample: the feedback that makes DFA exact."""

from __future__ import annotations

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork, evaluation_mode


def chain_of_one_sample(net: BlockNetwork, x: Tensor) -> list[Tensor] | None:
    """Returns dz/dh_l transposed, (width, outputs), for h_0 to h_L and the first sample of ``x``.

    None unless points and outputs are plain vectors. Runs in evaluation mode, where samples are independent.
    """
    with evaluation_mode(net), torch.enable_grad():
        start = net.embed(x[:1]).detach().requires_grad_()
        _, points = net.walk(start)
        outputs = net.readout(points[-1])
        if outputs.dim() != 2 or any(point.dim() != 2 for point in points):
            return None
        rows = [torch.autograd.grad(outputs[0, n], points, retain_graph=True) for n in range(outputs.shape[1])]
    return [torch.stack([row[number][0] for row in rows], 1) for number in range(len(points))]
