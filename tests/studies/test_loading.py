"""What names a study, what a study must have, and what a stored name may import."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kymograph
from kymograph import registry
from kymograph.errors import KymographError
from kymograph.pictures.figures import figure
from kymograph.runs.store import Store
from kymograph.studies.loading import list_studies, load_study, load_with_reference, registered_study
from kymograph.sweep import code_identity as code_reference
from kymograph.sweep import code_identity as part_hash

STUDY = """
from dataclasses import dataclass
import numpy as np
from kymograph import Arm, RunResult, RunSeries, Study

@dataclass(frozen=True)
class Settings:
    steps: int = 2

class Mom(Study[Settings]):
    name = "mom"
    question = "Why?"
    config_type = Settings

    def arms(self):
        return [Arm("only", default=True)]

    def train(self, specs, work):
        return [RunResult({"x": RunSeries(np.arange(2), np.arange(2.0))}, {"end": 1.0}) for _ in specs]
"""
PART = '\nPART = {"about": "Why?"}\nSTUDY = Mom\n'


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory; what a test imports or installs is forgotten."""
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.setattr(code_reference, "_added", [])
    monkeypatch.setattr(part_hash, "_hashed", {})
    before = set(sys.modules)
    with contextlib.chdir(tmp_path):
        yield tmp_path
    registry._in_packages.cache_clear()
    for name in set(sys.modules) - before:
        if not name.startswith(("kymograph.", "torch", "matplotlib", "numpy", "scipy", "sklearn")):
            del sys.modules[name]


def install(
    workspace: Path, group: str = "kymograph.studies", entry: str = "mom = installed_lab.study", **files: str
) -> Path:
    """Installs the package ``installed_lab``, as pip does; returns its directory."""
    site = workspace / "site-packages"
    package = site / "installed_lab"
    (site / "installed_lab-1.dist-info").mkdir(parents=True)
    package.mkdir()
    for name, text in {"__init__": "", **files}.items():
        (package / f"{name}.py").write_text(text)
    (site / "installed_lab-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: installed-lab\nVersion: 1\n"
    )
    (site / "installed_lab-1.dist-info" / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    registry._in_packages.cache_clear()
    return package


def test_a_package_directory_is_named_like_its_init_file(workspace: Path) -> None:
    (workspace / "p2").mkdir()
    (workspace / "p2" / "__init__.py").write_text(STUDY)
    found = {
        load_study(reference).source for reference in ("p2", "p2/", "p2/__init__.py", "p2/__init__.py:Mom", "p2:Mom")
    }
    assert len(found) == 1
    kymograph.run("p2", seeds=[1], quiet=True)
    assert load_with_reference("p2:Mom")[0].name == "mom"


@pytest.mark.parametrize(
    ("text", "reference", "message"),
    [
        (STUDY.replace('question = "Why?"', ""), "mom.py", "has no question"),
        (STUDY.replace('name = "mom"', ""), "mom.py", "has no name"),
        (STUDY.replace("config_type = Settings", ""), "mom.py", "has no config_type"),
        (STUDY.replace("@dataclass(frozen=True)", ""), "mom.py", "a dataclass"),
        (STUDY.replace("def arms", "def legs"), "mom.py", "mom.py defines no study: Mom lacks arms"),
        (STUDY.replace("def arms", "def legs"), "mom.py:Mom", "abstract"),
        (STUDY, "mom.py:Arm", "cannot load the study|is not a study"),
        (STUDY, "mom.py:np", "is not a study"),
        (STUDY, "mom.py:Settings", "cannot load the study|is not a study"),
        (STUDY, "mom.py:", "mom"),
        (STUDY, ":Mom", "there is no study"),
        (STUDY, "__main__:Mom", "__main__"),
        (STUDY + "class Other(Mom): pass\n", "mom.py:", r"the studies Mom, Other; choose one with mom\.py:NAME"),
        (STUDY.replace("int = 2", "dict = None"), "mom.py", "the setting steps of .* cannot be of type dict"),
        (STUDY.replace("int = 2", "Absent = 2").replace("from data", "from __future__ import annotations\nfrom data"),
         "mom.py", "the types of .* cannot be read"),
        (STUDY.replace("int = 2", "int"), "mom.py", "the setting steps of .* has no default"),
    ],
)  # fmt: skip
def test_an_incomplete_study_is_one_sentence(workspace: Path, text: str, reference: str, message: str) -> None:
    (workspace / "mom.py").write_text(text)
    if reference == "mom.py:" and "Other" not in text:
        assert load_study(reference).name == "mom"
        return
    with pytest.raises(KymographError, match=message) as found:
        load_study(reference)
    assert "\n" not in str(found.value) and "::" not in str(found.value)


def test_settings_may_be_tuples_and_unions(workspace: Path) -> None:
    fields = "int = 2\n    widths: tuple[int, ...] = (1, 2)\n    lr: float | str = 0.1\n"
    fields += "    pair: tuple[int, float] = (1, 2.0)"
    (workspace / "mom.py").write_text(STUDY.replace("int = 2", fields))
    study = load_study("mom.py")
    (spec,) = study.specs([1], None, {"widths": [3, 4, 5], "lr": "auto", "pair": (1, 2)})
    assert (spec.config.widths, spec.config.lr, spec.config.pair) == ((3, 4, 5), "auto", (1, 2.0))
    assert study.specs([1], None, {"lr": 1})[0].config.lr == 1.0
    for wrong in ({"widths": 3}, {"widths": ["x"]}, {"lr": None}, {"pair": (1, 2, 3)}):
        with pytest.raises(KymographError, match="must be of type"):
            study.specs([1], None, wrong)
    store = kymograph.run("mom.py", seeds=[1], quiet=True, widths=(3,))
    assert kymograph.run("mom.py", seeds=[1], quiet=True, widths=(3,)).runs[0].id == store.runs[0].id


def test_an_installed_study_must_have_the_name_of_its_entry(workspace: Path) -> None:
    install(workspace, entry="other = installed_lab.study", study=STUDY + PART)
    with pytest.raises(KymographError, match="registered as the study 'other' and calls itself 'mom'"):
        load_study("other")


def test_the_file_of_an_installed_study_is_that_study(workspace: Path) -> None:
    package = install(workspace, study=STUDY + PART)
    sources = {load_study(one).source for one in ("mom", str(package / "study.py"), "installed_lab.study:Mom")}
    assert len(sources) == 1 and None not in sources
    (workspace / "copy.py").write_text(STUDY)
    with pytest.raises(KymographError, match="calls itself 'mom', which is taken"):
        load_study("copy.py")
    depth = Path(kymograph.__file__).parent / "studies" / "depth"
    assert load_study(str(depth / "__init__.py")).source is None, "a built-in study named by its file is built in"


def test_a_stored_name_never_imports_installed_code(workspace: Path) -> None:
    install(workspace, study="raise SystemExit('imported')\n" + STUDY + PART)
    assert registered_study("mom") is None and registered_study("depth") is not None
    assert "installed_lab.study" not in sys.modules


def test_a_study_that_cannot_be_loaded_is_left_out_of_the_list(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    install(workspace, study=STUDY + PART + "1 / 0\n")
    built_in = ["clipping", "depth", "snapshot", "calibration", "audit", "rule-family"]
    assert [study.name for study in list_studies()] == built_in
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("warning: ") and "division by zero" in lines[0]


def test_an_entry_point_may_name_the_class(workspace: Path) -> None:
    install(workspace, entry="mom = installed_lab.study:Mom", study=STUDY)
    assert load_study("mom").question == "Why?"


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


def test_a_study_in_one_file_draws_with_its_own_functions(workspace: Path) -> None:
    drawing = (
        "\nfrom kymograph.studies.study import Drawing\n"
        "Mom.drawings = {'mom-own': Drawing('own', 'mine'), 'mom-absent': Drawing('absent', 'none')}\n"
        "def own(store):\n    from matplotlib.figure import Figure\n    return Figure()\n"
    )
    (workspace / "mom.py").write_text(STUDY + drawing)
    kymograph.run("mom.py", seeds=[1], out="runs", quiet=True)
    study, store = load_study("mom.py"), Store.open("runs")
    assert figure("mom-own", store, studies=[study]).axes == []
    with pytest.raises(KymographError, match="no function 'absent' draws this figure"):
        figure("mom-absent", store, studies=[study])


def test_a_study_edited_during_its_sweep_ends_the_sweep_once(workspace: Path) -> None:
    """Every run that was left used to be recorded as failed."""
    edit = "        with open(__file__, 'a') as file:\n            file.write('EDITED = True')\n"
    (workspace / "mom.py").write_text(STUDY.replace("        return [RunR", f"{edit}        return [RunR"))
    with pytest.raises(KymographError, match="the code of mom changed while its runs were waiting"):
        kymograph.run("mom.py", seeds=[1, 2, 3], out="runs", quiet=True)
    store = Store.open("runs")
    assert len(store.finished) == 1 and not store.failed.runs


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


def test_a_users_rule_is_part_of_what_a_run_is(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    """After an edit of the rule the runs of the old rule used to be found."""
    package = install(
        workspace, "kymograph_studies.rules", "scaled = installed_lab.rule", rule=RULE, amount="FACTOR = 0.0\n"
    )
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
    install(workspace, "kymograph_studies.analysis", "zeros = installed_lab.null", null=NULL)
    assert len({spec.source for spec in calibration.specs([1])} - {None}) == 1
    assert {spec.source for spec in snapshot.specs([1])} == {None}
    (spec, *_) = calibration.specs([1])
    named = {(part.noun, name) for part, name in calibration.parts(spec.config)}
    assert {("data set", "digits"), ("model", "resmlp"), ("rule", "dfa"), ("null", "zeros")} <= named
