"""The residual MLP: h <- h + W2 gelu(W1 LN(h))."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from kymograph.models.blocks import BlockNetwork

PART = {
    "about": "residual MLP on flattened images: h <- h + W2 gelu(W1 LN(h))",
    "order": 1,
    "settings": ("out_ln", "skip", "expansion", "w2_std"),
}


def build(
    channels: int,
    size: int,
    classes: int,
    *,
    depth: int,
    width: int,
    out_ln: bool = True,
    skip: bool = True,
    expansion: int = 1,
    w2_std: float = 0.01,
) -> ResidualMLP:
    """Returns the residual MLP for images (channels, size, size)."""
    return ResidualMLP(channels * size * size, classes, depth, width, expansion, w2_std, out_ln, skip)


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

    def first_stds(self) -> dict[nn.Linear, float]:
        """Returns the initial standard deviation of W2, which does not start from torch's default."""
        return {self.w2: self.w2_std}


class ResidualMLP(BlockNetwork):
    """Linear embed, ``depth`` blocks with or without skips, optional LayerNorm and linear head, on flattened images."""

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
        """The embed's linear layer, without the flattening."""
        return cast(nn.Linear, cast(nn.Sequential, self.embed)[1])

    @property
    def mlp_blocks(self) -> list[MlpBlock]:
        """The blocks, in order."""
        return cast(list[MlpBlock], list(self.blocks))
