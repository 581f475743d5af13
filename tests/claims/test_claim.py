"""What a claim is and refuses to be, its hash, and what its sides are called."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kymograph._claims.claim import REDUCTIONS, Check, Claim, Measure, Side, measure_name, with_labels
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._errors import KymographError
from kymograph._runs.declaration import Arm, Declaration, SeriesDisplay
from tests.claims.test_family import FakeRun, planned

A, B, C, D = (Side(arm, Measure("x")) for arm in "abcd")
CLAIM = Claim("a above b", "s", "t", A, B, "greater", 0.1, origin="o")


def test_what_is_unset_is_left_out_and_what_is_set_is_hashed() -> None:
    assert not {"equivalence_margin", "interaction"} & set(CLAIM.content)
    apart, four = replace(CLAIM, equivalence_margin=0.05), replace(CLAIM, interaction=(C, D))
    assert len({CLAIM.hash, apart.hash, four.hash, replace(four, interaction=(D, C)).hash}) == 4
    for claim in (CLAIM, apart, four, replace(CLAIM, direction="equal")):
        again = Claim.of(json.loads(json.dumps(claim.content)))
        assert again == claim and again.hash == claim.hash
    with pytest.raises(ValueError, match="unpack"):
        Claim.of({**four.content, "interaction": [1]})


def test_a_claim_without_its_sides_is_no_claim() -> None:
    with pytest.raises(ValueError, match="left"):
        Claim.of({"right": 1.0})


def test_a_claim_knows_the_quantities_that_it_compares() -> None:
    assert CLAIM.sides == (A, B) and replace(CLAIM, right=1.0).sides == (A,)
    assert replace(CLAIM, interaction=(C, D)).sides == (A, B, C, D)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"margin": -1.0}, "margin must be"),
        ({"scale": "log ratio", "margin": 0.5}, "ratio of at least 1"),
        ({"direction": "up"}, "direction must be"),
        ({"scale": "log"}, "scale must be"),
        ({"alpha": 0.9}, "alpha must lie"),
        ({"setup": ""}, "setup must be a label"),
        ({"equivalence_margin": -0.1}, "equivalence_margin must be a number of at least 0"),
        ({"scale": "log ratio", "margin": 1.1, "equivalence_margin": 0.9}, "equivalence_margin must be a ratio"),
        ({"direction": "equal", "margin": 0.0}, "nothing can be shown equal within a margin of 0"),
        ({"direction": "equal", "scale": "log ratio", "margin": 1.0}, "within a margin of 1"),
        ({"direction": "equal", "equivalence_margin": 0.1}, "takes no equivalence_margin"),
        ({"right": 1.0, "interaction": (C, D)}, "compares four quantities"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(change: dict, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        replace(CLAIM, **change)


def test_a_scale_goes_by_either_name_and_no_other() -> None:
    one, two = (Claim.compare("m", "a", "<", "b", scale=word, margin=1.1) for word in ("ratio", "log ratio"))
    assert one == two and one.scale == "log ratio"
    with pytest.raises(KymographError, match="'ratio' or 'difference', not 'log'"):
        Claim.compare("m", "a", "<", "b", scale="log", margin=1.1)  # type: ignore[arg-type]


def test_the_hash_changes_with_anything_the_claim_says() -> None:
    assert CLAIM.hash == replace(CLAIM).hash
    for change in ({"margin": 0.2}, {"text": "u"}, {"direction": "less"}, {"alpha": 0.01}, {"right": 1.0}):
        assert replace(CLAIM, **change).hash != CLAIM.hash


DECLARATION = Declaration(
    "s",
    arms=(Arm("mlp/dfa", label="DFA"), Arm("mlp/dfa/no_ln", label="DFA, no LayerNorm"), Arm("a", label="Adam")),
    headlines={"final_h": "‖h‖"},
    series=(SeriesDisplay("stream_norm", "Stream", "‖h_l‖"),),
)
LABELLED = replace(
    Claim.compare("final_h", "mlp/dfa/no_ln", ">", "mlp/dfa"),
    checks=(Check("norms are finite", Side("mlp/dfa", Measure("final_h")), most=10.0),),
)


def test_verdicts_call_arms_and_numbers_as_the_study_labels_them() -> None:
    """Checks and reasons used to say `final_h (mlp/dfa/no_ln)` where the page around them says DFA, no LayerNorm."""
    arms = {"mlp/dfa/no_ln": 3.0, "mlp/dfa": 1.0}
    runs = [FakeRun(arm, seed, {"final_h": value + 0.01 * seed}) for arm, value in arms.items() for seed in range(6)]
    (verdict,) = decide_claims([LABELLED], StudyEvidence(runs, declaration=DECLARATION), lambda _: "registered")
    assert verdict.checks[0].found == "‖h‖ (DFA) is 1 to 1.05"
    broken = replace(LABELLED, checks=(replace(LABELLED.checks[0], text="mlp/dfa/no_ln is large", least=2.0),))
    (verdict,) = decide_claims([broken], StudyEvidence(runs, declaration=DECLARATION), lambda _: "registered")
    assert verdict.reason == 'the check "DFA, no LayerNorm is large" failed: ‖h‖ (DFA) is 1 to 1.05 at 6 of 6 seeds'
    missing = StudyEvidence(runs, [planned("mlp/dfa", 9)], declaration=DECLARATION)
    (verdict,) = decide_claims([replace(LABELLED, checks=())], missing, lambda _: "registered")
    assert verdict.reason == "1 of 7 planned runs of DFA are missing (seed 9)"


def test_measures_are_called_as_the_study_labels_them() -> None:
    assert measure_name(Measure("final_h"), DECLARATION) == "‖h‖"
    assert measure_name(Measure("clip_fraction"), DECLARATION) == "clip fraction"
    growth = Measure("stream_norm", "growth", site="last")
    assert measure_name(growth, DECLARATION) == "growth of ‖h_l‖ at the last site"
    assert measure_name(Measure("stream_norm", "last", site="h_3"), DECLARATION) == "final ‖h_l‖ at h_3"
    for reduction in REDUCTIONS:
        assert "‖h_l‖" in measure_name(Measure("stream_norm", reduction), DECLARATION)


def test_only_whole_names_of_arms_are_replaced() -> None:
    text = with_labels("a stack like mlp/dfa/no_ln, not mlp/dfa/other or xmlp/dfa: mlp/dfa", DECLARATION)
    assert text == "a stack like DFA, no LayerNorm, not mlp/dfa/other or xmlp/dfa: DFA"
