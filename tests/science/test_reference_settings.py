"""When a claim may be called the script's."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from kymograph._claims.judge import judge
from kymograph._claims.verdict import Verdict
from kymograph._studies.loading import list_studies, load_study
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


@pytest.mark.parametrize("study", ["clipping", "depth", "snapshot", "calibration"])
def test_every_study_with_a_script_says_what_the_scripts_settings_are(study: str) -> None:
    declaration = load_study(study).declaration()
    arms = {quantity.arm for claim in load_study(study).claims() for quantity in claim.sides}
    assert all(declaration.reference_settings.of(arm) and declaration.defaults.of(arm) for arm in arms)


def test_the_scripts_trained_on_cifar10() -> None:
    scripts = {
        study.name: study.declaration().reference_settings
        for study in list_studies()
        if study.reference_settings is not None
    }
    assert scripts["snapshot"].of("resmlp/dfa")["data"] == scripts["calibration"].of("vanilla")["data"] == "cifar10"
    assert (
        scripts["snapshot"].of("resmlp/dfa")["epochs"] == 100 and scripts["calibration"].of("vanilla")["epochs"] == 30
    )
    assert QUICK_DEPTH["steps"] != scripts["depth"].of("plain")["steps"] == 500
