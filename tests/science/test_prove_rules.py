"""``kymograph rules``: every plan of the study's rules is put to the test, on its networks and by its own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kymograph._cli.main import main
from kymograph_studies import prove_rules as proof
from kymograph_studies.rules import RULES
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.rules.base import Credit
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.training.image_training import make_rule


def ends_with(code: int, *words: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["rules", *words])
    assert exit_.value.code == code


@pytest.mark.parametrize(
    "model", ["resmlp", pytest.param("vit", marks=pytest.mark.slow), pytest.param("conv", marks=pytest.mark.slow)]
)
def test_every_line_of_every_plan_holds(model: str, capsys: pytest.CaptureFixture) -> None:
    ends_with(0, "--model", model)
    text = capsys.readouterr().out
    assert "WRONG" not in text and f"{model}/dfa" in text and "cosine " in text
    assert ("exactly zero" in text) == (model == "resmlp")


@pytest.mark.slow
def test_what_is_proved_is_the_code_that_trains() -> None:
    """The accelerators, on the residual MLP: their gradients differ from autograd's in the last bits."""
    proofs = {one.name: one for one in proof.prove_arms("resmlp")}
    assert list(proofs)[:7] == [
        "resmlp/bp", "resmlp/dfa", "resmlp/dfa/no_rms", "resmlp/dfa/penalised", "resmlp/bp/rms", "resmlp/shallow",
        "resmlp/frozen",
    ]  # fmt: skip
    others = {name.removeprefix("resmlp/") for name in list(proofs)[7:]}
    assert others == set(RULES.names()) - {"bp", "dfa", "normalised-bp", "shallow", "frozen"}, "every rule is proved"
    assert all(0 < part.difference < 1e-12 for part in proofs["resmlp/bp"].parts)
    assert all("autograd's" in proofs[f"resmlp/{name}"].identities[0].what for name in ("fa", "usf", "kp", "wm"))


@pytest.mark.slow
def test_backpropagation_in_disguise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    class Disguised(DirectFeedback):
        def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
            return Backprop(self.net).backward(x, y, accumulate=accumulate)

    def disguised(*arguments: Any) -> Any:
        rule = make_rule(*arguments)
        return Disguised(rule.net, rule.matrices()) if rule.matrices() else rule

    monkeypatch.setattr(proof, "make_rule", disguised)
    ends_with(1)
    text = capsys.readouterr().out
    assert text.count("WRONG block") >= 4 and "not as planned" in text


MODELS = """
import torch
from torch import nn


def alone():
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 4))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.mix, self.out = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2), nn.Linear(8, 8)

    def forward(self, x):
        h = self.words(x)
        return self.out(h + self.mix(h, h, h)[0])


def with_batch():
    tokens = torch.arange(12).reshape(4, 3) % 9
    return Own(), tokens, tokens % 8, lambda z, y: nn.functional.cross_entropy(z.flatten(0, 1), y.flatten())


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.one, self.two, self.head = (nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4))

    def forward(self, x):
        return self.head(self.two(self.one(self.embed(x))))


class Detour(Chain):
    def forward(self, x):
        return self.head(self.two(self.one(self.embed(x)).relu()))


def lost():
    return "no network"


class Sly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x


class Hiding(nn.Linear):
    def forward(self, x):
        return Sly.apply(x, self.weight) + self.bias


def hiding():
    return nn.Sequential(nn.Linear(8, 6), Hiding(6, 6), nn.Linear(6, 4))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own_models.py"
    path.write_text(MODELS)
    return path


@pytest.mark.slow
def test_rules_are_proved_on_a_network_of_the_users_own(file: Path, capsys: pytest.CaptureFixture) -> None:
    ends_with(0, f"{file}:alone")
    text = capsys.readouterr().out
    assert "WRONG" not in text and "does not act" not in text and all(f"\n{name}\n" in text for name in RULES.names())
    ends_with(0, f"{file}:with_batch")
    text = capsys.readouterr().out
    assert "WRONG" not in text and text.count("carried back by") >= 12
    assert "dfa\n  does not act on this network: a network needs `.blocks`" in text, "named, not skipped"


def test_blocks_can_be_named_and_a_cut_that_computes_something_else_is_refused(
    file: Path, capsys: pytest.CaptureFixture
) -> None:
    ends_with(0, f"{file}:Chain", "--blocks", "one", "two")
    text = capsys.readouterr().out
    assert "WRONG" not in text and "does not act" not in text and "blocks.1" in text
    ends_with(0, f"{file}:Detour", "--blocks", "one", "two")
    text = capsys.readouterr().out
    assert "dfa\n  does not act on this network: calling the parts of Detour in order does not give" in text


def test_a_layer_that_hides_its_weight_is_named_and_never_taken_for_exact(
    file: Path, capsys: pytest.CaptureFixture
) -> None:
    ends_with(0, f"{file}:hiding")
    assert (
        "fa\n  does not act on this network: fa cannot pass through Sly, which uses 1.weight" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("lost", "must return a network, or"),
        ("absent", "defines no function 'absent'"),
        ("", "name a function in a file"),
    ],
)
def test_what_is_no_model_is_said_in_a_sentence(
    file: Path, reference: str, said: str, capsys: pytest.CaptureFixture
) -> None:
    ends_with(1, f"{file}:{reference}")
    assert said in capsys.readouterr().err
