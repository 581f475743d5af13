"""CIFAR-10 (Krizhevsky, 2009) as a task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from kymograph.data.cifar10_files import read
from kymograph.data.images import ImageTask

PART = {
    "about": "CIFAR-10 (see --data-dir)",
    "training_images": 50_000,
    "epochs": 100,
    "files": "kymograph.data.cifar10_files",
    "order": 2,
    "copies": {
        "44334cf67d0084be": "This is a copy of CIFAR-10 whose images were recompressed and reshuffled, so that "
        "accuracies and norms need not equal those on the official files to the last digit.",
    },
}
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def load(directory: str | Path | None = None) -> ImageTask:
    """Returns CIFAR-10 from ``directory``, or from the directory that the variable KYMOGRAPH_DATA names."""
    train, train_labels, test, test_labels = read(directory)

    def images(rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows.reshape(-1, 3, 32, 32).copy())

    def labels(rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows.astype(np.int64))

    return ImageTask(
        "cifar10",
        images(train),
        labels(train_labels),
        images(test),
        labels(test_labels),
        MEAN,
        STD,
        classes=10,
        augment=True,
    )
