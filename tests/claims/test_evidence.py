"""Which settings a verdict names, and the label of a claim about a study's reference settings."""

from __future__ import annotations

from dataclasses import replace

from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.evidence import StudyEvidence, named_settings, setup_label
from kymograph._runs.declaration import ArmSettings, Declaration


class Made:
    def __init__(self, arm: str, **settings: object) -> None:
        self.arm, self.seed, self.summary, self.series, self.config = arm, 1, {}, {}, settings


def test_how_often_a_run_is_measured_does_not_change_whose_set_up_it_is() -> None:
    reference = {"data": "images", "epochs": 100, "log_every": 1}
    declaration = Declaration("s", reference_settings=ArmSettings.pack({"dfa": reference}), bookkeeping=("log_every",))
    claim = Claim("x", "s", "", Side("dfa", Measure("loss")), 1.0, "greater", 0.0, setup="script", origin="")

    def label(**settings: object) -> str:
        return setup_label(claim, StudyEvidence([Made("dfa", **{**reference, **settings})], declaration=declaration))

    assert label() == label(log_every=7) == "script"
    assert label(epochs=30) == "altered" and label(data="digits") == "transfer"
    assert setup_label(claim, StudyEvidence([Made("dfa", **reference)])) == "own"
    assert setup_label(replace(claim, setup="pilot"), StudyEvidence([])) == "pilot", "any label will do"


def test_several_values_of_a_setting_are_listed_as_numbers() -> None:
    wide, narrow = Side("wide", Measure("loss")), Side("narrow", Measure("loss"))
    claim = Claim("x", "mine", "", wide, narrow, "less", 0.0, origin="")
    runs = [Made("wide", width=64), Made("narrow", width=8)]
    assert named_settings(claim, StudyEvidence(runs)) == {"width": "8 or 64"}
