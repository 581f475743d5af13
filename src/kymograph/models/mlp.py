"""The multilayer perceptron: h <- relu(W h + b)."""

from __future__ import annotations

from torch import Tensor, nn

from kymograph.models.blocks import BlockNetwork

PART = {
    "about": "multilayer perceptron on flattened images, ReLU, He initialisation",
    "order": 4,
    "settings": (),
}


def build(channels: int, size: int, classes: int, *, depth: int, width: int) -> MLP:
    """Returns the perceptron for images (channels, size, size)."""
    return MLP(channels * size * size, classes, depth, width)


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

    skip = False

    def __init__(self, inputs: int, classes: int, depth: int = 2, width: int = 128) -> None:
        super().__init__()
        self.embed = DenseLayer(inputs, width)
        self.blocks = nn.ModuleList(DenseLayer(width, width) for _ in range(depth))
        self.norm = nn.Identity()
        self.head = nn.Linear(width, classes)
