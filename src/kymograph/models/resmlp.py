"""The residual MLP of the snapshot study: h <- h + W2 gelu(W1 LN(h))."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from kymograph.models.blocks import BlockNetwork


class MlpBlock(nn.Module):
    """``W2 gelu(W1 LN(h))``; W2 starts near zero."""

    def __init__(self, width: int, expansion: int, w2_std: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1 = nn.Linear(width, width * expansion)
        self.w2 = nn.Linear(width * expansion, width)
        self.w2_std = w2_std

    def forward(self, h: Tensor) -> Tensor:
        """Maps (B, width) to (B, width)."""
        return self.w2(nn.functional.gelu(self.w1(self.norm(h))))


class ResidualMLP(BlockNetwork):
    """Linear embed, ``depth`` blocks with or without skip, LayerNorm or none, linear head; on flattened images."""

    head: nn.Linear

    def __init__(
        self,
        inputs: int,
        classes: int,
        depth: int = 4,
        width: int = 256,
        expansion: int = 1,
        w2_std: float = 0.01,
        out_ln: bool = True,
        skip: bool = True,
    ) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width))
        self.blocks = nn.ModuleList(MlpBlock(width, expansion, w2_std) for _ in range(depth))
        self.norm = nn.LayerNorm(width) if out_ln else nn.Identity()
        self.head = nn.Linear(width, classes)
        self.skip = skip

    @property
    def embed_layer(self) -> nn.Linear:
        """The embed without the flattening."""
        return cast(nn.Linear, cast(nn.Sequential, self.embed)[1])

    @property
    def mlp_blocks(self) -> list[MlpBlock]:
        """The blocks from the first to the last."""
        return cast(list[MlpBlock], list(self.blocks))


def initialise(net: nn.Module, draw: torch.Generator) -> None:
    """Draws every parameter anew from ``draw``, in order, as torch's own constructors draw from the global generator.

    Linear and convolution weights and biases are uniform on +-1/sqrt(fan_in); norms start at one and zero; a block's
    last layer (``w2``) is then set to weights N(0, w2_std) and zero bias; a free parameter, a token, is N(0, 0.02).
    """
    small = {block.w2: block.w2_std for block in net.modules() if isinstance(block, MlpBlock)}
    taken: set[int] = set()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=5**0.5, generator=draw)
                if module.bias is not None:
                    bound = module.weight[0].numel() ** -0.5
                    module.bias.uniform_(-bound, bound, generator=draw)
                if isinstance(module, nn.Linear) and module in small:
                    # What was just drawn is thrown away, as in the script: its next numbers depend on it.
                    module.weight.normal_(0.0, small[module], generator=draw)
                    module.bias.zero_()
            elif isinstance(module, nn.LayerNorm | nn.GroupNorm):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
            else:
                continue
            taken |= {id(parameter) for parameter in module.parameters(recurse=False)}
        for parameter in net.parameters():
            if id(parameter) not in taken:
                parameter.normal_(0.0, 0.02, generator=draw)
