"""Transformers cut into blocks: ViT-Mini for images, and one for sequences of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph_studies.models.blocks import BlockNetwork, optional_norm

PARTS = {
    "vit": {
        "attribute": "ViTMini",
        "about": "a small vision Transformer that reads out its class token",
        "order": 2,
        "settings": ("out_ln", "skip"),
        "width_multiple_of": 4,
    },
}

HEADS = 4


class PatchEmbed(nn.Module):
    """Square patches as tokens, with a class token in front and learned positions."""

    def __init__(self, channels: int, size: int, patch: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """Maps images (B, channels, size, size) to tokens (B, 1 + patches, width)."""
        tokens = self.project(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.positions


class AttentionBlock(nn.Module):
    """A pre-LayerNorm Transformer block without its outer skip: attention, then an MLP that sees its result."""

    def __init__(self, width: int, ratio: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, ratio * width), nn.Linear(ratio * width, width)

    def forward(self, h: Tensor) -> Tensor:
        """Returns what the block adds to the tokens (B, T, width)."""
        batch, tokens, width = h.shape
        qkv = self.qkv(self.norm1(h)).view(batch, tokens, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, T, width / heads) each
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(h.shape)
        attention = self.out(mixed)
        added: Tensor = attention + self.down(nn.functional.gelu(self.up(self.norm2(h + attention))))
        return added


class ViTMini(BlockNetwork):
    """A small vision Transformer that reads out its class token."""

    def __init__(
        self,
        channels: int,
        size: int,
        classes: int,
        depth: int = 4,
        width: int = 128,
        *,
        out_ln: bool = True,
        skip: bool = True,
    ) -> None:
        super().__init__(
            PatchEmbed(channels, size, 4 if size >= 16 else 2, width),
            [AttentionBlock(width, ratio=4) for _ in range(depth)],
            optional_norm(width, out_ln),
            nn.Linear(width, classes),
            skip,
        )

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the class token."""
        return h[:, 0]

    def measured(self, h: Tensor) -> Tensor:
        """Returns the class token, which is where the published logs measure."""
        return h[:, 0]


class TokenEmbed(nn.Module):
    """A learned vector per token, a class token after the sequence, and learned positions."""

    def __init__(self, vocab: int, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, length + 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """Maps token indices (B, length) to vectors (B, length + 1, width)."""
        return torch.cat([self.table(x), self.token.expand(len(x), -1, -1)], 1) + self.positions


class TokenTransformer(BlockNetwork):
    """Pre-LayerNorm attention blocks over tokens; the head reads the class token."""

    def __init__(self, vocab: int, length: int, classes: int, depth: int = 2, width: int = 32) -> None:
        super().__init__(
            TokenEmbed(vocab, length, width),
            [AttentionBlock(width, ratio=2) for _ in range(depth)],
            nn.LayerNorm(width),
            nn.Linear(width, classes),
        )

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the class token."""
        return h[:, -1]
