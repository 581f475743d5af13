from __future__ import annotations

from typing import Any

import pytest
import torch

from kymograph.cli.main import main
from kymograph.lab import proof
from kymograph.rules.baselines import BlockBackprop, NormalisedBackprop
from kymograph.rules.direct import DirectFeedback
from kymograph.studies.snapshot import SnapshotConfig


def parts_of(model: str, arm: str) -> list[proof.Part]:
    return next(parts for name, parts in proof.prove(model) if name == arm)


def ends_with(code: int, *words: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["rules", *words])
    assert exit_.value.code == code


@pytest.mark.parametrize("model", ["resmlp", "vit", "conv"])
def test_every_line_of_every_plan_holds(model: str, capsys: pytest.CaptureFixture) -> None:
    ends_with(0, "--model", model)
    text = capsys.readouterr().out
    assert "WRONG" not in text and f"{model}/dfa" in text and "cosine " in text
    assert ("exactly zero" in text) == (model == "resmlp")


def test_backpropagation_in_disguise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    class Disguised(DirectFeedback):
        def backward(self, *batch: object) -> object:  # type: ignore[override]
            return BlockBackprop().backward(*batch)  # type: ignore[arg-type]

    monkeypatch.setattr(proof, "make_rule", lambda config, feedback, device: Disguised(feedback, config.rms))
    ends_with(1)
    text = capsys.readouterr().out
    assert text.count("WRONG block") >= 4


@pytest.mark.parametrize(
    ("model", "wrong"), [("resmlp", "scaled"), ("resmlp", "noise"), ("resmlp", "rms"), ("conv", "matrices")]
)
def test_a_gradient_that_is_not_the_planned_one_is_found_out(
    monkeypatch: pytest.MonkeyPatch, model: str, wrong: str
) -> None:
    class Wrong(DirectFeedback):
        def backward(self, flat: Any, x: Any, y: Any) -> Any:
            if wrong in ("scaled", "noise"):
                credit = BlockBackprop().backward(flat, x, y)
                if wrong == "noise":
                    flat.gradients.normal_(generator=torch.Generator().manual_seed(0))
                flat.gradients.mul_(1.01)
                return credit
            matrices, normalise = self.feedback, self.normalise
            if wrong == "matrices":
                matrices = matrices[::-1]
            else:
                normalise = not normalise
            return DirectFeedback(matrices, normalise).backward(flat, x, y)

    def rule(config: SnapshotConfig, feedback: list[torch.Tensor], device: str) -> Any:
        return Wrong(feedback, config.rms) if feedback else BlockBackprop()

    monkeypatch.setattr(proof, "make_rule", rule)
    parts = parts_of(model, f"{model}/dfa")
    assert not any(part.holds for part in parts[:-1])


def test_normalised_backpropagation_is_held_to_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(NormalisedBackprop):
        def backward(self, flat: Any, x: Any, y: Any) -> Any:
            return BlockBackprop().backward(flat, x, y)

    monkeypatch.setattr(proof, "make_rule", lambda *_: Plain())
    assert [part.holds for part in parts_of("resmlp", "resmlp/bp/rms")] == [False] * 5 + [True]


def test_a_rule_that_trains_what_it_should_not_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaking(BlockBackprop):
        def backward(self, flat: object, x: object, y: object) -> object:  # type: ignore[override]
            return BlockBackprop("all").backward(flat, x, y)  # type: ignore[arg-type]

    monkeypatch.setattr(proof, "make_rule", lambda config, feedback, device: Leaking("readout"))
    parts = parts_of("resmlp", "resmlp/shallow")
    assert [part.holds for part in parts] == [False] * 5 + [True]


def test_the_true_chain_is_needed_for_the_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proof.with_true_chain() < 1e-12
    network, chain = proof._linear_network(proof.streams.script_generator(1))
    monkeypatch.setattr(proof, "_linear_network", lambda draw: (network, chain[::-1]))
    assert proof.with_true_chain() > proof.APART
