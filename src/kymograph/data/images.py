"""Image classification: images as uint8 tensors in memory, with labels and the statistics that normalise them."""

from __future__ import annotations

import dataclasses
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

    def resplit(self, seed: int) -> ImageTask:
        """Returns the task with its images split again at random, into training and test sets of the same sizes."""
        images, labels = torch.cat([self.train, self.test]), torch.cat([self.train_labels, self.test_labels])
        order = torch.randperm(len(labels), generator=streams.generator(seed, "split"))
        first, rest = order[: len(self.train)], order[len(self.train) :]
        return dataclasses.replace(
            self, train=images[first], train_labels=labels[first], test=images[rest], test_labels=labels[rest]
        )

    def digest(self) -> str:
        """Returns a hash of every pixel and label, which identifies the data that numbers come from."""
        total = hashlib.sha256()
        for tensor in (self.train, self.train_labels, self.test, self.test_labels):
            total.update(repr(tuple(tensor.shape)).encode())
            total.update(tensor.numpy().tobytes())
        return total.hexdigest()[:16]
