from __future__ import annotations

import numpy as np
import pytest
import torch

from kymograph import streams
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
