"""Batches of images from memory: order, crop, flip and normalisation as tensor operations.

One padded uint8 tensor holds the training set; a crop is read from an `unfold` view of it. Everything random is
drawn once per epoch from streams named after seed and epoch, so that every arm of a seed sees the same images in the
same order, and training can resume at any epoch without replaying the ones before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kymograph import streams
from kymograph.data.images import ImageTask

PAD = 4


class Batches:
    """The training and test batches of a task on a device."""

    def __init__(self, task: ImageTask, batch_size: int, device: torch.device | str = "cpu") -> None:
        self.task, self.batch_size = task, batch_size
        self._scale = torch.tensor(task.std, device=device).mul(255).reciprocal_()[:, None, None]
        self._shift = torch.tensor(task.mean, device=device)[:, None, None] * 255 * self._scale
        self._labels = task.train_labels.to(device)
        images = task.train.to(device)
        if task.augment:
            padded = torch.nn.functional.pad(images, (PAD, PAD, PAD, PAD))
            size = images.shape[-1]
            # (n, channels, 9, 9, size, size): every crop of every image, as a view
            self._crops = padded.unfold(2, size, 1).unfold(3, size, 1)
        else:
            self._crops = images[:, :, None, None]

    @property
    def per_epoch(self) -> int:
        """How many batches an epoch has; the last may be short."""
        return -(-len(self._labels) // self.batch_size)

    def epoch(self, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields the batches of one epoch: normalised images (B, channels, size, size) and labels (B,)."""
        n, device = len(self._labels), self._labels.device

        def draw(name: str) -> torch.Generator:
            return streams.generator(seed, name, str(epoch))

        order = torch.randperm(n, generator=draw("order")).to(device)
        if not self.task.augment:
            for rows in order.split(self.batch_size):
                yield self.normalise(self._crops[rows, :, 0, 0]), self._labels[rows]
            return
        down, right = torch.randint(0, 2 * PAD + 1, (2, n), generator=draw("crop")).to(device)
        flip = torch.rand(n, generator=draw("flip")).lt(0.5).to(device)
        for number, rows in enumerate(order.split(self.batch_size)):
            part = slice(number * self.batch_size, number * self.batch_size + len(rows))
            images = self._crops[rows, :, down[part], right[part]]  # a copy, (B, channels, size, size) uint8
            flipped = flip[part]
            images[flipped] = images[flipped].flip(-1)
            yield self.normalise(images), self._labels[rows]

    def test(self, limit: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns the first ``limit`` test images, normalised and unaugmented, and their labels."""
        device = self._labels.device
        return self.normalise(self.task.test[:limit].to(device)), self.task.test_labels[:limit].to(device)

    def normalise(self, images: Tensor) -> Tensor:
        """Returns uint8 images as floats, normalised by the task's mean and standard deviation."""
        return images.float().mul_(self._scale).sub_(self._shift)
