"""Networks and the state of a training on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kymograph._runs.resume import read_resume_state
from kymograph._sweep.compute import Workplace
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.models.cut import cut
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.snapshot import Snapshot
from kymograph_studies.training import checkpoints as checkpoint
from kymograph_studies.training import image_training
from kymograph_studies.training.loop import Update, train
from kymograph_studies.training.optimizers import AdamW


class Drifting(DirectFeedback):
    """DFA whose matrices change after every update: a rule with a state that training moves."""

    def after_update(self, step: int) -> None:
        """Turns the matrices a little, by how much depending on the step."""
        for matrix in self.feedback:
            matrix.mul_(1.0 + 0.1 / (step + 1)).add_(0.01)


def network() -> BlockNetwork:
    """Returns a network with BatchNorm, whose running statistics training moves."""
    blocks = [nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU()) for _ in range(2)]
    net = cut(nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), *blocks, nn.Linear(6, 10)))
    initialise(net, torch.Generator().manual_seed(1))
    return net


def drifting(net: BlockNetwork) -> Drifting:
    return Drifting(net, draw_feedback(torch.Generator().manual_seed(2), [6, 6], 10))


class Training:
    """A network in training, with everything that moves."""

    def __init__(self) -> None:
        net = network()
        self.flat, self.rule = FlatNetwork(net), drifting(net)
        self.optimizer = AdamW(self.flat, 1e-2, 0.1)

    def state(self) -> dict[str, Tensor]:
        return checkpoint.training_state(self.flat, self.optimizer, self.rule)

    def run(self, first: int, last: int) -> None:
        draw = torch.Generator().manual_seed(0)
        batches = [
            (torch.randn(8, 1, 8, 8, generator=draw), torch.randint(0, 10, (8,), generator=draw)) for _ in range(last)
        ]
        for _ in train(batches[first:], self.rule, Update(self.optimizer), first):
            pass

    def everything(self) -> dict[str, Tensor]:
        tensors = {**self.rule.net.state_dict(), **self.rule.state_dict(), **self.optimizer.state()}
        return {name: tensor.clone() for name, tensor in tensors.items()}


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, killed, resumed = Training(), Training(), Training()
    whole.run(0, 6)
    killed.run(0, 3)
    path = tmp_path / "state"
    path.write_bytes(checkpoint.pack_network(killed.state(), {}))
    tensors, _ = checkpoint.unpack_network(path)
    assert {"values", "mean", "square", "steps", "rule.feedback.0", "buffer.blocks.0.1.running_mean"} <= set(tensors)
    checkpoint.restore(resumed.state(), tensors, path)
    resumed.run(3, 6)
    assert same(whole.everything(), resumed.everything())
    for lost in ("rule.feedback.1", "buffer.blocks.1.1.running_var"):
        forgetful = Training()
        target = forgetful.state()
        kept = {name: tensor for name, tensor in target.items() if name != lost}
        checkpoint.restore(kept, tensors, path)
        forgetful.run(3, 6)
        assert not same(whole.everything(), forgetful.everything()), f"{lost} matters"


def test_a_networks_tensors_are_its_parameters_and_buffers() -> None:
    net = network()
    tensors = checkpoint.network_tensors(net)
    assert {name.split(".", 1)[1] for name in tensors} == set(net.state_dict())
    assert "buffer.blocks.0.1.num_batches_tracked" in tensors and "net.blocks.0.1.weight" in tensors


class Killer:
    """Kills a run after some epochs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def tick(self, steps: int) -> None:
        """Counts an epoch."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        """Ignores it."""


@pytest.fixture
def special(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the image studies train a network with BatchNorm by a rule whose state changes."""

    def rule(config: object, net: BlockNetwork, batches: object, draw: torch.Generator) -> Rule:
        return drifting(net)

    monkeypatch.setattr(image_training, "draw_network", lambda config, task, draw: network())
    monkeypatch.setattr(image_training, "make_rule", rule)


def test_a_killed_run_of_a_study_goes_on_to_the_same_bits(special: None, tmp_path: Path) -> None:
    fields = {"epochs": 3, "checkpoint_every": 1, "depth": 2, "width": 6, "batch_size": 500}
    (spec,) = Snapshot().specs([9], ["resmlp/dfa"], fields)

    def run(root: Path, after: int) -> image_training.Fitted:
        return image_training.fit(spec, spec.config, Workplace("cpu", Killer(after), root))

    whole = run(tmp_path / "whole", 99)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", 3)  # in the third epoch, before its end was stored
    part = tmp_path / "killed" / f"{spec.directory}.part" / image_training.RESUME
    saved, _ = read_resume_state(part, {"run": spec.id})
    assert saved is not None and saved["epoch"] == 2 and len(saved["rows"]) == 3
    assert "rule.feedback.1" in saved["training"] and "buffer.blocks.1.1.running_var" in saved["training"]
    resumed = run(tmp_path / "killed", 99)
    assert same(dict(whole.net.state_dict()), dict(resumed.net.state_dict()))
    assert all(torch.equal(a, b) for a, b in zip(whole.feedback, resumed.feedback, strict=True))
    for one, two in zip(whole.rows, resumed.rows, strict=True):
        np.testing.assert_equal(one, two)
    final = image_training.result(spec, resumed).checkpoint
    assert final is not None
    (tmp_path / "final").write_bytes(final)
    stored, _ = checkpoint.unpack_network(tmp_path / "final")
    assert torch.equal(stored["buffer.blocks.1.1.running_var"], resumed.net.get_buffer("blocks.1.1.running_var"))
    assert torch.equal(stored["feedback.0"], resumed.feedback[0])
