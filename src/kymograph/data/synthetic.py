"""Synthetic images of CIFAR-10's shape, for tests and timings that need its size but not its content."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from kymograph import streams
from kymograph.data.images import ImageTask

PART = {"about": "synthetic images of CIFAR-10's shape", "training_images": 5000, "epochs": 5, "order": 3}


def load(directory: Path | None = None, n_train: int = 5000, n_test: int = 1024) -> ImageTask:
    """Returns synthetic images of CIFAR-10's shape: a faint pattern per class under noise, the same every time."""
    draw = streams.generator(0, "synthetic images")
    patterns = torch.randn(10, 3, 32, 32, generator=draw)

    def make(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(0, 10, (count,), generator=draw)
        images = 128 + 20 * patterns[labels] + 40 * torch.randn(count, 3, 32, 32, generator=draw)
        return images.round().clamp(0, 255).to(torch.uint8), labels

    train, train_labels = make(n_train)
    test, test_labels = make(n_test)
    return ImageTask("synthetic", train, train_labels, test, test_labels, (0.5,) * 3, (0.2,) * 3, 10, augment=True)
