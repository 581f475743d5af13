"""Dividing a data set's images anew into training and test images."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from kymograph_studies.data.images import ImageTask
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.data.images import load_synthetic as synthetic


@pytest.fixture(scope="module")
def task() -> ImageTask:
    return synthetic(n_train=50, n_test=20)


def pairs(task: ImageTask) -> tuple[Counter, Counter]:
    """Returns the training and the test images with their labels, as often as each occurs."""
    sides = ((task.train, task.train_labels), (task.test, task.test_labels))
    train, test = (
        Counter((image.numpy().tobytes(), int(label)) for image, label in zip(images, labels, strict=True))
        for images, labels in sides
    )
    return train, test


@pytest.mark.parametrize("seed", [0, 42, 123])
def test_every_image_keeps_its_label_and_is_on_one_side(task: ImageTask, seed: int) -> None:
    again = task.resplit(seed)
    (train, test), (new_train, new_test) = pairs(task), pairs(again)
    assert new_train + new_test == train + test
    assert again.train.shape == task.train.shape and again.test.shape == task.test.shape
    assert again.train.dtype == task.train.dtype and again.train_labels.dtype == task.train_labels.dtype
    assert 0 < sum((new_test & test).values()) < 20, "another division"


def test_a_division_depends_on_its_seed_alone(task: ImageTask) -> None:
    first = task.resplit(7)
    torch.rand(3)
    assert first.digest() == task.resplit(7).digest() and first.digest() != task.resplit(8).digest()
    assert task.digest() == synthetic(n_train=50, n_test=20).digest(), "the task itself stays as it was"


def test_what_is_known_of_the_data_stays(task: ImageTask) -> None:
    again = task.resplit(1)
    for name in ("name", "mean", "std", "classes", "augment", "shape"):
        assert getattr(again, name) == getattr(task, name)


def test_test_images_of_digits_are_drawn_from_all_images_alike() -> None:
    """Of 1,797 images 360 are for testing, so a new division takes a fifth of its test images from the old ones."""
    task = digits()
    index = torch.arange(1797)
    numbered = ImageTask(
        "numbered", index[:1437, None, None, None], index[:1437], index[1437:, None, None, None], index[1437:],
        task.mean, task.std, 1797, augment=False,
    )  # fmt: skip
    kept = [int((numbered.resplit(seed).test_labels >= 1437).sum()) for seed in range(200)]
    mean = sum(kept) / len(kept)
    # Hypergeometric: mean 360 * 360 / 1797 = 72.1, standard deviation 6.8 each.
    assert abs(mean - 360 * 360 / 1797) < 4 * 6.8 / 200**0.5
