"""``kymograph rules``: every plan of the study's rules is put to the test, on its networks and by its own code."""

from __future__ import annotations

from typing import Any

import pytest

from kymograph.cli.main import main
from kymograph.lab import proof
from kymograph.rules.backprop import Backprop
from kymograph.rules.base import Credit
from kymograph.rules.direct import DirectFeedback
from kymograph.studies.image_training import make_rule


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


def test_what_is_proved_is_the_code_that_trains() -> None:
    """The accelerators, on the residual MLP: their gradients differ from autograd's in the last bits."""
    proofs = dict(proof.prove_arms("resmlp"))
    assert list(proofs) == [
        "resmlp/bp", "resmlp/dfa", "resmlp/dfa/no_rms", "resmlp/dfa/penalised", "resmlp/bp/rms", "resmlp/shallow",
        "resmlp/frozen",
    ]  # fmt: skip
    assert all(0 < part.difference < 1e-12 for part in proofs["resmlp/bp"])


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
