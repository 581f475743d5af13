"""Networks cut into embed, blocks and read-out, so that credit can be handed to each block separately.

    h_0 = embed(x),   h_{l+1} = h_l + f_l(h_l)   (or f_l(h_l) without the skip),   logits = readout(h_L)

``f_l`` is block l without its skip. `kymograph_studies.models.cut` cuts any other module in this way.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Trace(NamedTuple):
    """One forward pass up to the read-out."""

    start: Tensor
    """embed(x), with its graph."""
    outputs: list[Tensor]
    """f_0 to f_{L-1}: each block's output before it is joined to the stream."""
    points: list[Tensor]
    """h_0 to h_L."""


class BlockNetwork(nn.Module):
    """A network cut into parts; ``skip`` says whether a block's output is added to its input."""

    embed: nn.Module
    blocks: nn.ModuleList
    norm: nn.Module
    head: nn.Module

    def __init__(
        self, embed: nn.Module, blocks: Iterable[nn.Module], norm: nn.Module, head: nn.Module, skip: bool = True
    ) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm, self.head, self.skip = embed, nn.ModuleList(blocks), norm, head, skip

    def forward(self, x: Tensor) -> Tensor:
        """Returns the logits, shape (batch, classes)."""
        return self.readout(self.stream(x)[-1])

    def stream(self, x: Tensor) -> list[Tensor]:
        """Returns h_0 to h_L."""
        return self.trace(x).points

    def trace(self, x: Tensor, *, detach: bool = False) -> Trace:
        """Returns one pass through embed and blocks; with ``detach``, no gradient flows between parts."""
        start = self.embed(x)
        outputs, points = self.walk(start.detach() if detach else start, detach=detach)
        return Trace(start, outputs, points)

    def walk(self, h: Tensor, first: int = 0, *, detach: bool = False) -> tuple[list[Tensor], list[Tensor]]:
        """Continues the stream from ``h`` as h_first; returns f_first to f_{L-1}, and h_first to h_L.

        With ``detach``, each block sees its input without a graph.
        """
        outputs, points = [], [h]
        for block in islice(self.blocks, first, None):
            outputs.append(block(points[-1]))
            points.append(self.join(points[-1], outputs[-1].detach() if detach else outputs[-1]))
        return outputs, points

    def join(self, h: Tensor, f: Tensor) -> Tensor:
        """Returns the next point of the stream from a point and the block's output there."""
        return h + f if self.skip else f

    def readout(self, h: Tensor) -> Tensor:
        """Returns the logits from the last point of the stream."""
        logits: Tensor = self.head(self.norm(self.pooled(h)))
        return logits

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the part of a point of the stream that the read-out sees, (batch, features)."""
        return h

    def measured(self, h: Tensor) -> Tensor:
        """Returns a point of the stream (or its gradient) as one vector per sample, for norms and cosines."""
        return h.flatten(1)

    def credit_shape(self, h: Tensor) -> tuple[int, int]:
        """Returns the width of a credit vector at ``h`` and the number of positions that it is spread over.

        Features are the last axis, or the second of an image (batch, channels, height, width).
        """
        width = h.shape[1] if h.dim() == 4 else h.shape[-1]
        return width, h[0].numel() // width

    def spread(self, credit: Tensor, h: Tensor) -> Tensor:
        """Returns credit (batch, width) at every position of ``h``, divided by the root of the number of positions.

        Credit that already has positions is only reshaped.
        """
        if credit.dim() == h.dim():
            return credit.view_as(h)
        share: Tensor = credit / self.credit_shape(h)[1] ** 0.5
        return (share[:, :, None, None] if h.dim() == 4 else share[:, None]).expand_as(h)


def optional_norm(width: int, used: bool) -> nn.Module:
    """Returns the LayerNorm before a head, or the identity."""
    return nn.LayerNorm(width) if used else nn.Identity()


def parameter_names(net: nn.Module) -> dict[str, list[str]]:
    """Returns each part's parameter names: ``embed``, ``blocks.0`` to ``blocks.L-1``, ``readout``.

    A network that is not cut into blocks is one part, ``network``.
    """
    if not isinstance(net, BlockNetwork):
        return {"network": [name for name, _ in net.named_parameters()]}
    groups: dict[str, list[str]] = {
        part: [] for part in ("embed", *(f"blocks.{number}" for number in range(len(net.blocks))), "readout")
    }
    for name, _ in net.named_parameters():
        top, *rest = name.split(".")
        part = top if top == "embed" else f"blocks.{rest[0]}" if top == "blocks" else "readout"
        groups[part].append(name)
    return groups


NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d)


def initialise(net: nn.Module, draw: torch.Generator) -> None:
    """Redraws every parameter from ``draw``, in order, as torch's constructors draw from the global generator.

    Linear and convolution weights and biases are uniform on +-1/sqrt(fan_in); norms start at one and zero; any other
    parameter, such as a class token, is normal with standard deviation 0.02. A module's method ``first_stds`` may name
    layers whose weights are then normal with the given standard deviation, and whose biases are zero.
    """
    small = {
        layer: std
        for module in net.modules()
        if callable(stds := getattr(module, "first_stds", None))
        for layer, std in stds().items()
    }
    drawn: set[int] = set()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=5**0.5, generator=draw)
                if module.bias is not None:
                    bound = module.weight[0].numel() ** -0.5
                    module.bias.uniform_(-bound, bound, generator=draw)
                if module in small:
                    # The draw above is discarded, as in the script: later random numbers depend on it.
                    module.weight.normal_(0.0, small[module], generator=draw)
                    if module.bias is not None:
                        module.bias.zero_()
            elif isinstance(module, NORMS):
                for parameter, value in ((module.weight, 1.0), (module.bias, 0.0)):
                    if parameter is not None:
                        parameter.fill_(value)
            else:
                continue
            drawn |= {id(parameter) for parameter in module.parameters(recurse=False)}
        for parameter in net.parameters():
            if id(parameter) not in drawn:
                parameter.normal_(0.0, 0.02, generator=draw)
