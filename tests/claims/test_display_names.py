from __future__ import annotations

from dataclasses import replace

from kymograph.claims.claim import REDUCTIONS, Check, Claim, Measure, Side, measure_name, with_labels
from kymograph.claims.evidence import StudyEvidence
from kymograph.claims.family import decide_claims
from kymograph.runs.declaration import Arm, Declaration, SeriesDisplay
from tests.claims.test_family import FakeRun, planned

DECLARATION = Declaration(
    "s",
    arms=(Arm("mlp/dfa", label="DFA"), Arm("mlp/dfa/no_ln", label="DFA, no LayerNorm"), Arm("a", label="Adam")),
    headlines={"final_h": "‖h‖"},
    series=(SeriesDisplay("stream_norm", "Stream", "‖h_l‖"),),
)
CLAIM = replace(
    Claim.compare("final_h", "mlp/dfa/no_ln", ">", "mlp/dfa"),
    checks=(Check("norms are finite", Side("mlp/dfa", Measure("final_h")), most=10.0),),
)


def test_verdicts_call_arms_and_numbers_as_the_study_labels_them() -> None:
    """Checks and reasons used to say `final_h (mlp/dfa/no_ln)` where the page around them says DFA, no LayerNorm."""
    arms = {"mlp/dfa/no_ln": 3.0, "mlp/dfa": 1.0}
    runs = [FakeRun(arm, seed, {"final_h": value + 0.01 * seed}) for arm, value in arms.items() for seed in range(6)]
    (verdict,) = decide_claims([CLAIM], StudyEvidence(runs, declaration=DECLARATION), lambda _: "registered")
    assert verdict.checks[0].found == "‖h‖ (DFA) is 1 to 1.05"
    broken = replace(CLAIM, checks=(replace(CLAIM.checks[0], text="mlp/dfa/no_ln is large", least=2.0),))
    (verdict,) = decide_claims([broken], StudyEvidence(runs, declaration=DECLARATION), lambda _: "registered")
    assert verdict.reason == 'the check "DFA, no LayerNorm is large" failed: ‖h‖ (DFA) is 1 to 1.05 at 6 of 6 seeds'
    missing = StudyEvidence(runs, [planned("mlp/dfa", 9)], declaration=DECLARATION)
    (verdict,) = decide_claims([replace(CLAIM, checks=())], missing, lambda _: "registered")
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
