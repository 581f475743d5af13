"""Image tasks: their data sets, batches, new splits and known copies."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
import torch

from kymograph import _streams as streams
from kymograph._errors import KymographError
from kymograph._registry import Part
from kymograph_studies.data import DATA_SETS, copy_remarks
from kymograph_studies.data.images import PAD, Batches, ImageTask
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.data.images import load_synthetic as synthetic


@pytest.fixture(scope="module")
def task() -> ImageTask:
    return synthetic(n_train=50, n_test=20)


def test_digits_are_split_once_and_for_all() -> None:
    task = digits()
    assert task.train.shape == (1437, 1, 8, 8) and task.test.shape == (360, 1, 8, 8)
    assert task.train.max() == 255 and not task.augment
    assert task.digest() == digits().digest()


def test_a_batch_is_what_padding_cropping_flipping_and_normalising_one_image_at_a_time_give(task: ImageTask) -> None:
    seed, epoch, size = 7, 3, 16
    order = torch.randperm(50, generator=streams.generator(seed, "order", str(epoch)))
    down, right = torch.randint(0, 2 * PAD + 1, (2, 50), generator=streams.generator(seed, "crop", str(epoch)))
    flip = torch.rand(50, generator=streams.generator(seed, "flip", str(epoch))) < 0.5
    batches = list(Batches(task, size).epoch(seed, epoch))
    assert [len(y) for _, y in batches] == [16, 16, 16, 2]
    images = torch.cat([x for x, _ in batches])
    labels = torch.cat([y for _, y in batches])
    assert torch.equal(labels, task.train_labels[order])
    for index, row in enumerate(order.tolist()):
        picture = np.pad(task.train[row].numpy(), ((0, 0), (PAD, PAD), (PAD, PAD)))
        top, left = int(down[index]), int(right[index])
        picture = picture[:, top : top + 32, left : left + 32]
        if flip[index]:
            picture = picture[:, :, ::-1]
        expected = (picture / 255 - 0.5) / 0.2
        np.testing.assert_allclose(images[index], expected, atol=1e-5)


def test_order_and_augmentation_depend_on_seed_and_epoch_only(task: ImageTask) -> None:
    first = next(Batches(task, 8).epoch(1, 0))
    torch.rand(10)
    again = next(Batches(task, 8).epoch(1, 0))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    for seed, epoch in ((1, 1), (2, 0)):
        assert not torch.equal(first[0], next(Batches(task, 8).epoch(seed, epoch))[0])


def test_test_images_are_not_augmented(task: ImageTask) -> None:
    x, y = Batches(task, 8).test(5)
    torch.testing.assert_close(x, (task.test[:5] / 255 - 0.5) / 0.2, atol=1e-5, rtol=0)
    assert torch.equal(y, task.test_labels[:5])
    assert len(Batches(task, 8).test()[0]) == 20


def test_augmenting_leaves_the_images_alone(task: ImageTask) -> None:
    before = task.train.clone()
    for _ in Batches(task, 8).epoch(1, 0):
        pass
    assert torch.equal(task.train, before)


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


def test_only_known_copies_are_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        "own": Part("own", "my_lab.own", {"copies": {"b": "the second", "a": "the first"}}),
        "odd": Part("odd", "my_lab.odd", {"copies": ["a"]}),
        "none": Part("none", "my_lab.none", {}),
    }
    monkeypatch.setattr(DATA_SETS, "parts", lambda: parts)
    assert copy_remarks(["c", "b", "a", "b"]) == ["the first", "the second"]
    assert copy_remarks(["None"]) == []


def test_without_scikit_learn_the_digits_name_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(KymographError, match=r"scikit-learn.*pip install 'kymograph\[studies\]'"):
        digits()
