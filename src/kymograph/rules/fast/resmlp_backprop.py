"""Backpropagation of the residual MLP with every derivative written out.

Autograd computes each weight gradient in new memory, adds it to a zeroed one and discards it, which on a CPU costs a
tenth of the step. Here each is written directly to ``.grad``. The results are autograd's up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.models.resmlp import MlpBlock, ResidualMLP
from kymograph.rules.backprop import Backprop
from kymograph.rules.base import Credit, Rule
from kymograph.rules.fast.inplace import InPlace
from kymograph.rules.fast.layers import Normed, gradient_of, linear_back, normalise, through_norm
from kymograph.rules.frozen import Frozen
from kymograph.rules.losses import cross_entropy, output_error
from kymograph.rules.shallow import Shallow

PART = {"rules": ("bp", "shallow", "frozen"), "about": "ResidualMLP: derivatives written out, in place"}
DEVICES = ("cpu", "cuda")
"""Devices on which writing into strided views is reliable."""

_gelu_back = torch.ops.aten.gelu_backward


class _InPlaceBackprop(InPlace):
    """Backpropagation through a `ResidualMLP`, for all parts or for some."""

    net: ResidualMLP
    trains_embed: bool
    trains_blocks: bool

    @torch.no_grad()
    def fill(self, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of the trained parts; the others are exactly zero."""
        net, blocks = self.net, self.net.mlp_blocks
        if not self.trains_blocks:
            self._zero()
        x = x.flatten(1)
        h = net.embed_layer(x)
        kept: list[tuple[Tensor, Normed, Tensor, Tensor]] = []
        for block in blocks:
            normed = normalise(block.norm, h)
            inner = block.w1(normed[0])
            active = nn.functional.gelu(inner)
            kept.append((h, normed, inner, active))
            h = net.join(h, block.w2(active))
        loss, logits, signal = _readout(net, h, y)
        if self.trains_embed:
            for block, (point, normed, inner, active) in zip(reversed(blocks), reversed(kept), strict=True):
                at_input = _block(block, point, normed, inner, active, signal, self.trains_blocks)
                signal = at_input.add_(signal) if net.skip else at_input
            linear_back(net.embed_layer, x, signal)
        return Credit(loss[None], logits)

    def _zero(self) -> None:
        for parameter in self._net_parameters:
            gradient_of(parameter).zero_()


class FastBackprop(_InPlaceBackprop, Backprop):
    """`Backprop` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed = trains_blocks = True


class FastFrozen(_InPlaceBackprop, Frozen):
    """`Frozen` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed, trains_blocks = True, False


class FastShallow(_InPlaceBackprop, Shallow):
    """`Shallow` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed = trains_blocks = False


_FAST_RULES: dict[type[Rule], type[_InPlaceBackprop]] = {
    Backprop: FastBackprop,
    Frozen: FastFrozen,
    Shallow: FastShallow,
}


def accelerate(rule: Rule) -> Rule | None:
    """Returns the twin of a plain rule on a `ResidualMLP`."""
    twin = _FAST_RULES.get(type(rule))
    return twin(rule.net, loss=rule.loss) if twin is not None and serves(rule) else None


def serves(rule: Rule) -> bool:
    """Returns whether a rule's network, loss and device are supported here."""
    net = rule.net
    return (
        type(net) is ResidualMLP
        and all(type(block) is MlpBlock for block in net.blocks)
        and rule.loss is cross_entropy
        and net.head.weight.device.type in DEVICES
    )


def _readout(net: ResidualMLP, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fills the gradients of head and terminal LayerNorm; returns the mean loss, the logits and the gradient at h_L."""
    normed = normalise(net.norm, h) if isinstance(net.norm, nn.LayerNorm) else None
    read = h if normed is None else normed[0]
    logits = net.head(read)
    loss = nn.functional.cross_entropy(logits, y)
    error = output_error(logits, y).div_(len(y))
    linear_back(net.head, read, error)
    signal = error @ net.head.weight
    if normed is not None and isinstance(net.norm, nn.LayerNorm):
        signal = through_norm(net.norm, h, normed, signal, fill=True)
    return loss, logits, signal


def _block(
    block: MlpBlock, h: Tensor, normed: Normed, inner: Tensor, active: Tensor, signal: Tensor, fill: bool
) -> Tensor:
    """Returns the gradient at a block's input, without the skip's, from that at its output; fills its own if asked."""
    before = _gelu_back(signal @ block.w2.weight, inner)
    if fill:
        linear_back(block.w2, active, signal)
        linear_back(block.w1, normed[0], before)
    return through_norm(block.norm, h, normed, before @ block.w1.weight, fill)
