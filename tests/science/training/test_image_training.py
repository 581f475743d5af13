"""What a trained network's record says about the rule that trained it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from kymograph._runs.record import CHECKPOINT, RunResult
from kymograph._sweep.compute import Workplace
from kymograph._sweep.progress import Progress
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.snapshot import Snapshot
from kymograph_studies.training import checkpoints as checkpoint
from kymograph_studies.training import image_training
from kymograph_studies.training.image_training import fit, result

QUICK = {"epochs": 1, "width": 8, "depth": 2, "batch_size": 512, "checkpoint_every": 0}


def matrices(count: int) -> list[Tensor]:
    return [torch.randn(8, 10, generator=torch.Generator().manual_seed(number)) for number in range(count)]


class Scaled(DirectFeedback):
    """DFA that keeps a number of its own."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net, matrices(2), embed_feedback=matrices(3)[2])
        self.register_buffer("scale", torch.ones(3))


def trained_by(rule: type[Rule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunResult, dict]:
    """Returns the result of a run under ``rule``, and the tensors of its checkpoint."""
    monkeypatch.setattr(image_training, "make_rule", lambda config, net, batches, draw: rule(net))
    (spec,) = Snapshot().specs([3], ["resmlp/dfa"], QUICK)
    found = result(spec, fit(spec, spec.config, Workplace("cpu", Progress("", 1, 1, quiet=True), tmp_path)))
    assert found.checkpoint is not None
    (tmp_path / CHECKPOINT).write_bytes(found.checkpoint)
    return found, checkpoint.unpack_network(tmp_path / CHECKPOINT)[0]


def test_the_record_says_of_feedback_what_the_rule_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law and the embed's share used to be written as those of DFA, whatever the rule."""
    found, tensors = trained_by(Scaled, tmp_path, monkeypatch)
    assert found.summary["feedback_of_embed"] == "its own matrix"
    assert "feedback_law" not in found.summary, "these matrices were given, not drawn"
    assert torch.equal(tensors["feedback.1"], matrices(2)[1])


def test_a_checkpoint_holds_everything_of_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, tensors = trained_by(Scaled, tmp_path, monkeypatch)
    assert torch.equal(tensors["rule.embed_feedback"], matrices(3)[2]) and torch.equal(
        tensors["rule.scale"], torch.ones(3)
    )
    names = {name for name in tensors if not name.startswith("net.")}
    assert names == {"feedback.0", "feedback.1", "rule.embed_feedback", "rule.scale"}, "each tensor once"
