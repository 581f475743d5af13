"""Trained networks from disk, and which images they can be measured on."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kymograph.errors import KymographError
from kymograph.lab.trained_networks import Trained
from kymograph.models import draw_model
from tests.devices.few_images import CLASSES, few_images


def test_images_of_another_size_or_with_more_classes_are_refused_in_one_sentence() -> None:
    task = few_images()
    net = draw_model("resmlp", 1, 8, CLASSES, torch.Generator().manual_seed(0), depth=1, width=4)
    trained = Trained(net, [], None, None, None)
    images = task.test.float()
    trained.check_images(images, task, "net.pt")
    with pytest.raises(KymographError, match="does not take images of few: mat1 and mat2"):
        trained.check_images(images[..., :4], task, "net.pt")
    richer = dataclasses.replace(task, classes=CLASSES + 1)
    with pytest.raises(KymographError, match="does not take images of few: it distinguishes 7 classes, not 8"):
        trained.check_images(images, richer, "net.pt")
