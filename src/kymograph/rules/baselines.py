"""Backpropagation on a cut network, with the parts that are not trained left out: the baselines of every table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import Credit
from kymograph.rules.direct import unit_rms


class BlockBackprop:
    """The exact gradient of the cross-entropy, for all parts or for some.

    Args:
        parts: ``all``; ``readout`` (shallow: hidden gradients are exactly zero); ``no blocks`` (frozen blocks: embed
            and read-out learn, the gradient passing through the blocks).
    """

    def __init__(self, parts: str = "all") -> None:
        self.parts = parts

    def backward(self, flat: Any, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of the trained parts; the others stay exactly zero."""
        net: BlockNetwork = flat.net
        flat.gradients.zero_()
        if self.parts == "readout":
            with torch.no_grad():
                last = net.stream(x)[-1]
            loss = torch.nn.functional.cross_entropy(net.readout(last), y)
        else:
            loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        if self.parts == "no blocks":
            for name, span in flat.spans.items():
                if name.startswith("blocks."):
                    flat.gradients[0, span] = 0.0
        return Credit(loss.detach()[None])


class NormalisedBackprop:
    """Backpropagation whose signal at each block is divided, per sample, by its RMS: DFA's normalisation without DFA.

    Block l gets its exact local Jacobian times the normalised gradient at its output; the read-out is exact.
    """

    def backward(self, flat: Any, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of all parts from one forward pass."""
        net: BlockNetwork = flat.net
        flat.gradients.zero_()
        start = net.embed(x)
        points, outputs = [start], []
        for block in net.blocks:
            outputs.append(block(points[-1]))
            points.append(net.join(points[-1], outputs[-1]))
        loss = torch.nn.functional.cross_entropy(net.readout(points[-1]), y)
        size = len(y)
        readout = [p for name, p in net.named_parameters() if name in set(flat.groups["readout"])]
        at_points = torch.autograd.grad(loss, points, retain_graph=True)
        _accumulate(readout, torch.autograd.grad(loss, readout, retain_graph=True))
        signals = [unit_rms((g * size).flatten(1)).view_as(g) / size for g in at_points]
        for block, output, signal in zip(net.blocks, outputs, signals[1:], strict=True):
            parameters = list(block.parameters())
            _accumulate(parameters, torch.autograd.grad(output, parameters, signal, retain_graph=True))
        parameters = list(net.embed.parameters())
        _accumulate(parameters, torch.autograd.grad(start, parameters, signals[0]))
        return Credit(loss.detach()[None], tuple(signals[1:]))


def _accumulate(parameters: list[torch.nn.Parameter], gradients: tuple[Tensor, ...]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None
        parameter.grad.copy_(gradient)
