"""The studies as users see and extend them: described settings, subclasses, a user's own rules and nulls."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from kymograph._runs.store import Store
from kymograph._studies.loading import built_in_studies, load_study
from kymograph._studies.settings import setting_docs
from tests.studies.installing import install, workspace

__all__ = ["workspace"]
pytestmark = pytest.mark.usefixtures("workspace")
NULL = (
    'import torch\nPART = {"label": "n", "about": "n"}\ndef draw(pairs, m, s, draws, seed):\n'
    "    return torch.zeros(len(pairs), draws)\n"
)
RULE = (
    "from kymograph_studies.rules.backprop import Backprop\nfrom installed_lab.amount import FACTOR\n"
    'PART = {"about": "scaled"}\n'
    "class Scaled(Backprop):\n    def backward(self, x, y, *, accumulate=True):\n"
    "        credit = super().backward(x, y, accumulate=False)\n"
    "        for parameter in self.net.parameters():\n            parameter.grad.mul_(FACTOR)\n        return credit\n"
    "def build(net, setup):\n    return Scaled(net, setup.loss)\n"
)


def test_every_setting_of_every_built_in_study_is_described() -> None:
    undescribed = [
        f"{study.name}.{setting.name}"
        for study in built_in_studies()
        for setting in setting_docs(study.config_type)
        if not setting.about
    ]
    assert not undescribed


def test_the_built_in_study_with_p_values_declares_them() -> None:
    study = load_study("calibration")
    assert set(study.p_values) == {key for key in study.headlines if key.endswith("_p")}
    assert set(study.declaration().p_values) == set(study.p_values)


def test_a_subclass_of_a_built_in_study_in_one_file_trains_as_its_base_does(workspace: Path) -> None:
    """It failed with "No module named 'mydepth.train'"."""
    (workspace / "mydepth.py").write_text(
        "from kymograph_studies.depth import Depth\n"
        "class MyDepth(Depth):\n    name = 'mydepth'\n    question = 'Deeper?'\n"
    )
    store = kymograph.run("mydepth.py", seeds=[1], arms=["plain"], out="runs", quiet=True, steps=2)
    assert not store.failed.runs and len(store.finished) == 1
    assert list(load_study("mydepth.py").claims()) == [], "the claims are about the runs of depth"
    assert set(load_study("mydepth.py").figures()) == set(load_study("depth").figures())


def test_a_users_rule_is_part_of_what_a_run_is(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    """After an edit of the rule the runs of the old rule used to be found."""
    package = install(workspace, "kymograph.rules", "scaled = installed_lab.rule", rule=RULE, amount="FACTOR = 0.0\n")
    (workspace / "own.py").write_text(
        "from kymograph import Arm\nfrom kymograph_studies.training.image_study import ImageSettings, ImageStudy\n"
        "from kymograph_studies.training.image_training import fit, result\n"
        "class Own(ImageStudy[ImageSettings]):\n"
        "    name = 'own'\n    question = 'Which?'\n    config_type = ImageSettings\n"
        "    def arms(self):\n"
        "        return [Arm(rule, '', {'rule': rule}, default=True) for rule in ('bp', 'scaled')]\n"
        "    def train(self, specs, work):\n"
        "        return [result(spec, fit(spec, spec.config, work)) for spec in specs]\n"
    )
    tiny = {"data": "synthetic", "depth": 1, "width": 8, "epochs": 1, "optimizer": "sgd", "device": "cpu"}

    def swept() -> Store:
        store = kymograph.run("own.py", seeds=[1], out="runs", quiet=False, **tiny)  # type: ignore[arg-type]
        assert not store.failed.runs, [run.reason for run in store.failed]
        return store

    first = {run.arm: run for run in swept()}
    (package / "amount.py").write_text("FACTOR = 1.0\n")
    capsys.readouterr()
    second = {run.arm: run for run in swept()}
    assert "the rule scaled was edited" in capsys.readouterr().err
    assert first["bp"].id == second["bp"].id and first["scaled"].id != second["scaled"].id
    loss = {name: runs["scaled"].series["train_loss"].value[-1] for name, runs in (("old", first), ("new", second))}
    assert abs(loss["old"] - loss["new"]) > 1e-3, "the edited rule is what ran"
    assert loss["new"] == pytest.approx(second["bp"].series["train_loss"].value[-1], rel=1e-5)
    everything = Store.open("runs")
    assert len(everything) == 3 and {run.id for run in everything.current()} == {run.id for run in second.values()}
    (package / "amount.py").write_text("FACTOR = 0.0\n")
    assert {run.id for run in swept()} == {run.id for run in first.values()}, "the earlier rule finds its runs again"
    assert {run.id for run in Store.open("runs").current()} == {run.id for run in first.values()}


def test_users_data_sets_models_and_nulls_are_too_and_built_in_parts_are_not(workspace: Path) -> None:
    calibration, snapshot = load_study("calibration"), load_study("snapshot")
    assert {spec.source for study in (calibration, snapshot) for spec in study.specs([1])} == {None}
    install(workspace, "kymograph.nulls", "zeros = installed_lab.null", null=NULL)
    assert len({spec.source for spec in calibration.specs([1])} - {None}) == 1
    assert {spec.source for spec in snapshot.specs([1])} == {None}
    (spec, *_) = calibration.specs([1])
    named = {(part.noun, name) for part, name in calibration.parts(spec.config)}
    assert {("data set", "digits"), ("model", "resmlp"), ("rule", "dfa"), ("null", "zeros")} <= named
