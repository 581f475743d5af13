"""scikit-learn's handwritten digits: embedded, so that every image study runs without a download."""

from __future__ import annotations

from pathlib import Path

import torch

from kymograph import streams
from kymograph.data.images import ImageTask

PART = {
    "about": "scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, embedded",
    "training_images": 1437,
    "epochs": 60,
    "order": 1,
}


def load(directory: Path | None = None) -> ImageTask:
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
