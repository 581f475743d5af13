"""A small Transformer that classifies sequences of tokens, cut into blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph.models.vit import AttentionBlock, TokenNetwork


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


class TokenTransformer(TokenNetwork):
    """Pre-LayerNorm attention blocks over tokens; the head reads the class token."""

    def __init__(
        self, vocab: int, length: int, classes: int, depth: int = 2, width: int = 32, heads: int = 4, ratio: int = 2
    ) -> None:
        super().__init__()
        self.embed = TokenEmbed(vocab, length, width)
        self.blocks = nn.ModuleList(AttentionBlock(width, heads, ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the class token."""
        return h[:, -1]
