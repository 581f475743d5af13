"""Which settings a verdict names, and when a claim may be called the script's."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from kymograph.claims.claim import Claim, Measure, Side
from kymograph.claims.judge import judge
from kymograph.claims.verdict import Verdict
from kymograph.studies.loading import list_studies, load_study
from tests.conftest import QUICK_DEPTH


def first(found: list[Verdict], setup: str) -> Verdict:
    return next(one for one in found if one.claim.setup == setup)


def test_other_settings_than_the_scripts_are_not_called_the_scripts(tmp_path: Path) -> None:
    """`run depth --layers 3 --width 8 --steps 20` used to be judged as "depth, script"."""
    kymograph.run("depth", n_seeds=6, out=tmp_path, quiet=True, layers=3, width=8, steps=20)
    found = first(list(judge(tmp_path)), "script")
    assert found.setup == "altered" and found.row()["setup"] == "altered"
    assert found.settings == {"layers": 3, "width": 8, "steps": 20}
    assert "altered, layers 3, width 8, steps 20" in judge(tmp_path).markdown()


def test_a_script_claim_on_other_data_is_a_transfer(tmp_path: Path) -> None:
    kymograph.run("calibration", seeds=[1], out=tmp_path, quiet=True, epochs=1, width=8, depth=2, draws=19)
    found = first(list(judge(tmp_path)), "script")
    assert found.setup == "transfer" and found.settings["data"] == "digits"
    assert first(list(judge(tmp_path)), "repaired").setup == "repaired"


def test_how_often_a_run_is_measured_does_not_change_whose_set_up_it_is() -> None:
    from kymograph.claims.evidence import StudyEvidence, setup_label

    class Made:
        def __init__(self, arm: str, **settings: object) -> None:
            self.arm, self.seed, self.summary, self.series = arm, 1, {}, {}
            self.config = {**load_study("snapshot").declaration().script.of(arm), **settings}

    declaration = load_study("snapshot").declaration()
    claim = Claim("x", "snapshot", "script", "", "", Side("resmlp/dfa", Measure("final_h_L")), 1.0, "greater", 0.0)

    def label(**settings: object) -> str:
        runs = [Made("resmlp/dfa", **settings)]
        return setup_label(claim, StudyEvidence(runs, script=declaration.script, bookkeeping=declaration.bookkeeping))

    assert label() == label(log_every=7) == "script"
    assert label(epochs=30) == "altered" and label(data="digits") == "transfer"
    assert setup_label(claim, StudyEvidence([Made("resmlp/dfa")])) == "own"


@pytest.mark.parametrize("study", ["clipping", "depth", "snapshot", "calibration"])
def test_every_study_with_a_script_says_what_the_scripts_settings_are(study: str) -> None:
    declaration = load_study(study).declaration()
    arms = {quantity.arm for claim in load_study(study).claims() for quantity in claim.sides}
    assert all(declaration.script.of(arm) and declaration.defaults.of(arm) for arm in arms)


def test_the_scripts_trained_on_cifar10() -> None:
    scripts = {study.name: study.declaration().script for study in list_studies() if study.script is not None}
    assert scripts["snapshot"].of("resmlp/dfa")["data"] == scripts["calibration"].of("vanilla")["data"] == "cifar10"
    assert (
        scripts["snapshot"].of("resmlp/dfa")["epochs"] == 100 and scripts["calibration"].of("vanilla")["epochs"] == 30
    )
    assert QUICK_DEPTH["steps"] != scripts["depth"].of("plain")["steps"] == 500


def test_several_values_of_a_setting_are_listed_as_numbers() -> None:
    from kymograph.claims.evidence import StudyEvidence, named_settings

    class Made:
        def __init__(self, arm: str, width: int) -> None:
            self.arm, self.seed, self.summary, self.series, self.config = arm, 1, {}, {}, {"width": width}

    wide, narrow = Side("wide", Measure("loss")), Side("narrow", Measure("loss"))
    claim = Claim("x", "mine", "own", "", "", wide, narrow, "less", 0.0)
    assert named_settings(claim, StudyEvidence([Made("wide", 64), Made("narrow", 8)])) == {"width": "8 or 64"}
