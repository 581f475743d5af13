"""A data set of few small images in seven classes, to stand for a registered one where only the code counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from kymograph import _streams as streams
from kymograph_studies.data import images, load_task
from kymograph_studies.data.images import ImageTask

CLASSES = 7


def few_images(directory: Path | None = None, augment: bool = False) -> ImageTask:
    """Returns 96 training and 40 test images of 8 x 8 pixels."""
    draw = streams.generator(0, "few images")
    pixels = torch.randint(0, 256, (136, 1, 8, 8), generator=draw).to(torch.uint8)
    labels = torch.arange(136) % CLASSES
    return ImageTask("few", pixels[:96], labels[:96], pixels[96:], labels[96:], (0.5,), (0.3,), CLASSES, augment)


@contextmanager
def instead_of_digits() -> Iterator[None]:
    """Lets the few images be the data set ``digits`` for the length of a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "load_digits", few_images)
        load_task.cache_clear()
        yield
    load_task.cache_clear()
