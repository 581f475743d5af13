"""Image networks without attention, cut into blocks: MLP, residual MLP and convolutional network."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from kymograph_studies.models.blocks import BlockNetwork, optional_norm

PARTS = {
    "mlp": {
        "attribute": "MLP",
        "about": "multilayer perceptron on flattened images, ReLU, He initialisation",
        "order": 4,
        "settings": (),
    },
    "resmlp": {
        "attribute": "ResidualMLP",
        "about": "residual MLP on flattened images: h <- h + W2 gelu(W1 LN(h))",
        "order": 1,
        "settings": ("out_ln", "skip", "expansion", "w2_std"),
    },
    "conv": {
        "attribute": "ConvNet",
        "about": "a plain convolutional network, without skips",
        "order": 3,
        "settings": ("out_ln", "batch_norm"),
    },
}


class DenseLayer(nn.Module):
    """``relu(W h + b)`` of the flattened input."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, h: Tensor) -> Tensor:
        """Maps (B, ...) to (B, outputs)."""
        return nn.functional.relu(self.linear(h.flatten(1)))

    def first_stds(self) -> dict[nn.Linear, float]:
        """Returns He's standard deviation, which preserves the scale of the activations (arXiv:1502.01852)."""
        return {self.linear: (2 / self.linear.in_features) ** 0.5}


class MLP(BlockNetwork):
    """``1 + depth`` hidden layers of one width, the first of which is the embed, and a linear head; no skips."""

    def __init__(self, channels: int, size: int, classes: int, depth: int = 2, width: int = 128) -> None:
        super().__init__(
            DenseLayer(channels * size * size, width),
            [DenseLayer(width, width) for _ in range(depth)],
            nn.Identity(),
            nn.Linear(width, classes),
            skip=False,
        )


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
        out: Tensor = self.w2(nn.functional.gelu(self.w1(self.norm(h))))
        return out

    def first_stds(self) -> dict[nn.Linear, float]:
        """Returns the initial standard deviation of W2, which does not start from torch's default."""
        return {self.w2: self.w2_std}


class ResidualMLP(BlockNetwork):
    """Linear embed, ``depth`` blocks with or without skips, optional LayerNorm and linear head, on flattened images."""

    head: nn.Linear

    def __init__(
        self,
        channels: int,
        size: int,
        classes: int,
        depth: int = 4,
        width: int = 256,
        *,
        expansion: int = 1,
        w2_std: float = 0.01,
        out_ln: bool = True,
        skip: bool = True,
    ) -> None:
        super().__init__(
            nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, width)),
            [MlpBlock(width, expansion, w2_std) for _ in range(depth)],
            optional_norm(width, out_ln),
            nn.Linear(width, classes),
            skip,
        )

    @property
    def embed_layer(self) -> nn.Linear:
        """The embed's linear layer, without the flattening."""
        return cast(nn.Linear, cast(nn.Sequential, self.embed)[1])

    @property
    def mlp_blocks(self) -> list[MlpBlock]:
        """The blocks, in order."""
        return cast(list[MlpBlock], list(self.blocks))


class ConvBlock(nn.Module):
    """``gelu(conv(h))``, optionally with batch norm before the activation and 2x2 average pooling after it."""

    def __init__(self, width: int, halve: bool, batch_norm: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width) if batch_norm else nn.Identity()
        self.halve = halve

    def forward(self, h: Tensor) -> Tensor:
        """Maps (B, width, s, s) to (B, width, s or s/2, s or s/2)."""
        out = nn.functional.gelu(self.norm(self.conv(h)))
        return nn.functional.avg_pool2d(out, 2) if self.halve else out


class ConvNet(BlockNetwork):
    """A plain convolutional network, without skips: convolutions, mean over positions, linear head."""

    def __init__(
        self,
        channels: int,
        size: int,
        classes: int,
        depth: int = 4,
        width: int = 64,
        *,
        out_ln: bool = False,
        batch_norm: bool = False,
    ) -> None:
        stride = 2 if size >= 16 else 1
        halves = [number % 2 == 1 and size // stride // 2 ** ((number + 1) // 2) >= 2 for number in range(depth)]
        super().__init__(
            nn.Conv2d(channels, width, 3, padding=1, stride=stride),
            [ConvBlock(width, halve, batch_norm) for halve in halves],
            optional_norm(width, out_ln),
            nn.Linear(width, classes),
            skip=False,
        )

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the mean over positions."""
        return h.mean(dim=(2, 3))
