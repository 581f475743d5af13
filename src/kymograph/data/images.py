"""Image classification: pictures and labels as uint8 tensors in memory, and what a batch of them becomes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph import streams


@dataclass(frozen=True)
class ImageTask:
    """A training and a test set of images with the statistics that normalise them."""

    name: str
    train: Tensor  # (n, channels, size, size) uint8
    train_labels: Tensor  # (n,) int64
    test: Tensor
    test_labels: Tensor
    mean: tuple[float, ...]
    """Per channel, of pixels scaled to [0, 1]."""
    std: tuple[float, ...]
    classes: int
    augment: bool
    """Whether training images are shifted by up to `PAD` pixels and flipped."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return channels, height, width

    def digest(self) -> str:
        """Returns a hash of every pixel and label, so that numbers can say which data they come from."""
        total = hashlib.sha256()
        for tensor in (self.train, self.train_labels, self.test, self.test_labels):
            total.update(repr(tuple(tensor.shape)).encode())
            total.update(tensor.numpy().tobytes())
        return total.hexdigest()[:16]


def digits() -> ImageTask:
    """Returns scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a fixed fifth of them is the test set."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8)[:, None]  # (n, 1, 8, 8)
    labels = torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(labels), generator=streams.generator(0, "digits split"))
    test, train = order[:360], order[360:]
    pixels = images[train].double() / 255
    return ImageTask(
        "digits",
        images[train],
        labels[train],
        images[test],
        labels[test],
        (float(pixels.mean()),),
        (float(pixels.std()),),
        classes=10,
        augment=False,
    )


def synthetic(n_train: int = 5000, n_test: int = 1024) -> ImageTask:
    """Returns made-up images of CIFAR-10's shape: a faint pattern per class under noise; the same every time."""
    draw = streams.generator(0, "synthetic images")
    patterns = torch.randn(10, 3, 32, 32, generator=draw)

    def make(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(0, 10, (count,), generator=draw)
        images = 128 + 20 * patterns[labels] + 40 * torch.randn(count, 3, 32, 32, generator=draw)
        return images.round().clamp(0, 255).to(torch.uint8), labels

    train, train_labels = make(n_train)
    test, test_labels = make(n_test)
    return ImageTask("synthetic", train, train_labels, test, test_labels, (0.5,) * 3, (0.2,) * 3, 10, augment=True)
