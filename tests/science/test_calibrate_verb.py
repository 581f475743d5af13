from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from kymograph_studies.verbs import LEAST_DRAWS
from tests.cli.command import call


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A network of the calibration script's layout, for images of 8 x 8 pixels and ten classes."""
    shapes = {"embed.weight": (4, 64), "embed.bias": (4,), "out_head.weight": (10, 4), "out_head.bias": (10,)}
    for part, shape in (("ln.weight", (4,)), ("ln.bias", (4,)), ("w1.weight", (16, 4)), ("w1.bias", (16,)),
                        ("w2.weight", (4, 16)), ("w2.bias", (4,))):  # fmt: skip
        shapes[f"blocks.0.{part}"] = shape
    draw = torch.Generator().manual_seed(0)
    state = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    path = tmp_path / "network.pt"
    torch.save({"state_dict": state, "Bs": [torch.randn(4, 10, generator=draw)], "test_acc": 0.25}, path)
    return path


def test_the_fewest_draws_can_reach_significance() -> None:
    assert 1 / (LEAST_DRAWS + 1) <= 0.05 < 1 / LEAST_DRAWS


def test_only_the_nulls_asked_for_are_drawn_and_fresh_is_always_there(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ("calibrate", str(checkpoint), "--data", "digits", "--draws", "19", "--images", "50")
    out = str(tmp_path / "out")
    assert call(*words, "--device", "cpu", "--nulls", "rows", "--out", out) == 0
    text = capsys.readouterr().out
    assert text.startswith("test accuracy 0.2500\n") and "50 images, 19 draws" in text
    assert "rows (neurons) permuted" in text and "(classes) permuted" not in text and "fresh B" in text
    assert f"{out}/calibration.json" in text and (tmp_path / "out" / "calibration.pdf").exists()


def test_the_data_directory_is_an_argument_and_not_the_environment(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("KYMOGRAPH_DATA", raising=False)
    before, absent = dict(os.environ), str(tmp_path / "absent")
    for verb, extra in (("calibrate", ("--out", str(tmp_path / "out"))), ("audit", ("--no-ladder",))):
        assert call(verb, str(checkpoint), "--data", "cifar10", "--data-dir", absent, *extra) == 1
        assert absent in capsys.readouterr().err
    assert dict(os.environ) == before and not (tmp_path / "out").exists()
