"""Image classification from memory: data sets, and batches with crops, flips and normalisation as tensor operations."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import kymograph as ky
from kymograph import KymographError
from kymograph_studies.data.cifar10_files import read

PARTS = {
    "digits": {
        "attribute": "load_digits",
        "about": "scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, embedded",
        "training_images": 1437,
        "epochs": 60,
        "order": 1,
    },
    "synthetic": {
        "attribute": "load_synthetic",
        "about": "synthetic images of CIFAR-10's shape",
        "training_images": 5000,
        "epochs": 5,
        "order": 3,
    },
    "cifar10": {
        "attribute": "load_cifar10",
        "about": "CIFAR-10 (see --data-dir)",
        "training_images": 50000,
        "epochs": 100,
        "files": "kymograph_studies.data.cifar10_files",
        "order": 2,
        "copies": {
            "44334cf67d0084be": "This is a copy of CIFAR-10 whose images were recompressed and reshuffled, so that "
            "accuracies and norms need not equal those on the official files to the last digit."
        },
    },
}


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
        order = torch.randperm(len(labels), generator=ky.generator(seed, "split"))
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


PAD = 4


class Batches:
    """The training and test batches of a task on a device.

    One padded uint8 tensor holds the training set; a view of it has the crop that starts at each pixel. Everything
    random is drawn once per epoch from streams named after seed and epoch, so that every arm of a seed sees the same
    images in the same order, and training can resume at any epoch without replaying the ones before it.
    """

    def __init__(self, task: ImageTask, batch_size: int, device: torch.device | str = "cpu") -> None:
        self.task, self.batch_size = task, batch_size
        self._scale = torch.tensor(task.std, device=device).mul(255).reciprocal_()[:, None, None]
        self._shift = torch.tensor(task.mean, device=device)[:, None, None] * 255 * self._scale
        self._labels = task.train_labels.to(device)
        self._images = task.train.to(device)
        if task.augment:
            self._images = torch.nn.functional.pad(self._images, (PAD, PAD, PAD, PAD))
            within = self._images.stride()[1:]
            last = sum((length - 1) * stride for length, stride in zip(task.shape, within, strict=True))
            # (pixels, channels, size, size): one axis to select from, so that whole lines are copied, not single bytes
            self._crops = self._images.as_strided((self._images.numel() - last, *task.shape), (1, *within))

    @property
    def per_epoch(self) -> int:
        """How many batches an epoch has; the last may be short."""
        return -(-len(self._labels) // self.batch_size)

    def epoch(self, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields the batches of one epoch: normalised images (B, channels, size, size) and labels (B,)."""
        n, device = len(self._labels), self._labels.device

        def draw(name: str) -> torch.Generator:
            return ky.generator(seed, name, str(epoch))

        order = torch.randperm(n, generator=draw("order")).to(device)
        if not self.task.augment:
            for rows in order.split(self.batch_size):
                yield self.normalise(self._images.index_select(0, rows)), self._labels[rows]
            return
        down, right = torch.randint(0, 2 * PAD + 1, (2, n), generator=draw("crop")).to(device)
        flip = torch.rand(n, generator=draw("flip")).lt(0.5).to(device)
        image, _, line, pixel = self._images.stride()
        starts = order * image + down * line + right * pixel
        parts = (per_image.split(self.batch_size) for per_image in (order, starts, flip))
        for rows, start, flipped in zip(*parts, strict=True):
            crops = self._crops.index_select(0, start)  # (B, channels, size, size) uint8
            both = torch.cat([crops, crops.flip(-1)])
            chosen = torch.arange(len(rows), device=device) + flipped * len(rows)
            yield self.normalise(both.index_select(0, chosen)), self._labels[rows]

    def test(self, limit: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns the first ``limit`` test images, normalised and unaugmented, and their labels."""
        device = self._labels.device
        return self.normalise(self.task.test[:limit].to(device)), self.task.test_labels[:limit].to(device)

    def normalise(self, images: Tensor) -> Tensor:
        """Returns uint8 images as floats, normalised by the task's mean and standard deviation."""
        return images.float().mul_(self._scale).sub_(self._shift)


def load_digits(directory: Path | None = None) -> ImageTask:
    """Returns scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a fixed fifth of them is the test set."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise KymographError(
            "the digits need scikit-learn; install it with `pip install 'kymograph[studies]'`"
        ) from None
    bunch = load_digits()
    images = torch.from_numpy(bunch.images).mul(255 / 16).round().to(torch.uint8)[:, None]  # (n, 1, 8, 8)
    labels = torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(labels), generator=ky.generator(0, "digits split"))
    test, train = order[:360], order[360:]
    pixels = images[train].double() / 255
    mean, std = (float(pixels.mean()),), (float(pixels.std()),)
    return ImageTask(
        "digits", images[train], labels[train], images[test], labels[test], mean, std, classes=10, augment=False
    )


def load_synthetic(directory: Path | None = None, n_train: int = 5000, n_test: int = 1024) -> ImageTask:
    """Returns synthetic images of CIFAR-10's shape: a faint pattern per class under noise, the same every time."""
    draw = ky.generator(0, "synthetic images")
    patterns = torch.randn(10, 3, 32, 32, generator=draw)

    def make(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(0, 10, (count,), generator=draw)
        images = 128 + 20 * patterns[labels] + 40 * torch.randn(count, 3, 32, 32, generator=draw)
        return images.round().clamp(0, 255).to(torch.uint8), labels

    train, train_labels = make(n_train)
    test, test_labels = make(n_test)
    return ImageTask("synthetic", train, train_labels, test, test_labels, (0.5,) * 3, (0.2,) * 3, 10, augment=True)


MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def load_cifar10(directory: str | Path | None = None) -> ImageTask:
    """Returns CIFAR-10 from ``directory``, or from the directory that the variable KYMOGRAPH_DATA names."""
    pixels, labels, test_pixels, test_labels = read(directory)
    train, test = (torch.from_numpy(rows.reshape(-1, 3, 32, 32).copy()) for rows in (pixels, test_pixels))
    classes, test_classes = (torch.from_numpy(rows.astype(np.int64)) for rows in (labels, test_labels))
    return ImageTask("cifar10", train, classes, test, test_classes, MEAN, STD, classes=10, augment=True)
