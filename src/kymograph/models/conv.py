"""A plain convolutional network, cut into blocks."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.models.blocks import BlockNetwork

PART = {
    "about": "a plain convolutional network, without skips",
    "order": 3,
    "settings": ("out_ln", "batch_norm"),
}


def build(
    channels: int,
    size: int,
    classes: int,
    *,
    depth: int,
    width: int,
    out_ln: bool = False,
    batch_norm: bool = False,
) -> ConvNet:
    """Returns the convolutional network for images (channels, size, size)."""
    return ConvNet(channels, size, classes, depth, width, out_ln=out_ln, batch_norm=batch_norm)


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

    skip = False

    def __init__(
        self,
        channels: int,
        size: int,
        classes: int,
        depth: int = 4,
        width: int = 64,
        out_ln: bool = False,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, 3, padding=1, stride=2 if size >= 16 else 1)
        side = size // 2 if size >= 16 else size
        halves = [number % 2 == 1 and side // 2 ** ((number + 1) // 2) >= 2 for number in range(depth)]
        self.blocks = nn.ModuleList(ConvBlock(width, halve, batch_norm) for halve in halves)
        self.norm = nn.LayerNorm(width) if out_ln else nn.Identity()
        self.head = nn.Linear(width, classes)

    def pooled(self, h: Tensor) -> Tensor:
        """Returns the mean over positions."""
        return h.mean(dim=(2, 3))

    def credit_shape(self, h: Tensor) -> tuple[int, int]:
        """Returns (channels, positions): credit has one entry per channel."""
        return h.shape[1], h.shape[2] * h.shape[3]

    def spread(self, credit: Tensor, h: Tensor) -> Tensor:
        """Returns the same credit at every position, divided by the root of the number of positions."""
        return (credit / (h.shape[2] * h.shape[3]) ** 0.5)[:, :, None, None].expand_as(h)
