"""Backpropagation of the residual MLP with every derivative written out.

Autograd makes each weight gradient in new memory, adds it to a zeroed place and throws it away, which on a processor
costs a tenth of the step. Here each is computed where it belongs. The numbers are `BlockBackprop`'s, to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from kymograph.models.resmlp import MlpBlock, ResidualMLP
from kymograph.rules.base import Credit
from kymograph.rules.baselines import BlockBackprop
from kymograph.rules.direct import output_error
from kymograph.rules.fast.layers import Normed, linear_back, normalise, through_norm

_gelu_back = torch.ops.aten.gelu_backward


class WrittenBackprop(BlockBackprop):
    """`BlockBackprop` on a `ResidualMLP`; arguments as there.

    The blocks are computed here and not by calling them, so forward hooks on them do not fire.
    """

    @torch.no_grad()
    def backward(self, flat: Any, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of the trained parts; the others stay exactly zero."""
        net: ResidualMLP = flat.net
        fill = self.parts == "all"
        if not fill:
            flat.gradients.zero_()
        x = x.flatten(1)
        h = net.embed_layer(x)
        kept: list[tuple[Tensor, Normed, Tensor, Tensor]] = []
        for block in net.mlp_blocks:
            normed = normalise(block.norm, h)
            inner = block.w1(normed[0])
            active = nn.functional.gelu(inner)
            kept.append((h, normed, inner, active))
            h = net.join(h, block.w2(active))
        loss, signal = _readout(net, h, y)
        if self.parts == "readout":
            return Credit(loss[None])
        for block, (point, normed, inner, active) in zip(reversed(net.mlp_blocks), reversed(kept), strict=True):
            at_input = _block(block, point, normed, inner, active, signal, fill)
            signal = at_input.add_(signal) if net.skip else at_input
        linear_back(net.embed_layer, x, signal)
        return Credit(loss[None])


def _readout(net: ResidualMLP, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Fills the gradients of head and terminal LayerNorm; returns the mean loss and its gradient at h_L."""
    normed = normalise(net.norm, h) if isinstance(net.norm, nn.LayerNorm) else None
    read = h if normed is None else normed[0]
    logits = net.head(read)
    loss = nn.functional.cross_entropy(logits, y)
    error = output_error(logits, y).div_(len(y))
    linear_back(net.head, read, error)
    signal = error @ net.head.weight
    if normed is not None and isinstance(net.norm, nn.LayerNorm):
        signal = through_norm(net.norm, h, normed, signal, fill=True)
    return loss, signal


def _block(
    block: MlpBlock, h: Tensor, normed: Normed, inner: Tensor, active: Tensor, signal: Tensor, fill: bool
) -> Tensor:
    """Returns the gradient at a block's input, less the skip's, from that at its output; fills its own if asked."""
    before = _gelu_back(signal @ block.w2.weight, inner)
    if fill:
        linear_back(block.w2, active, signal)
        linear_back(block.w1, normed[0], before)
    return through_norm(block.norm, h, normed, before @ block.w1.weight, fill)
