"""Trained networks from disk, and which images they can be measured on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from kymograph._errors import KymographError
from kymograph_studies.models import draw_model
from kymograph_studies.training.trained_networks import Trained, load
from tests.devices.few_images import CLASSES, few_images
from tests.fuzz import stage


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


@pytest.mark.parametrize("accuracy", ["0.9", float("nan"), 1.5, [0.5], True])
def test_a_test_accuracy_that_is_no_fraction_is_one_sentence(accuracy: Any, tmp_path: Path) -> None:
    """It used to reach the table's format and the JSON file, which failed on it."""
    path = stage.script_network(tmp_path)
    content = torch.load(path, weights_only=True)
    assert load(path).accuracy == content["test_acc"]
    torch.save({**content, "test_acc": accuracy}, path)
    with pytest.raises(KymographError, match=r"the test accuracy in .*net\.pt must be a fraction, not"):
        load(path)
