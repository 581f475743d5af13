"""What names a study, what a study must have, and what a stored name may import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._pictures.figures import figure, figure_from_files
from kymograph._runs.store import Store
from kymograph._studies.loading import built_in_studies, list_studies, load_study, load_with_reference, registered_study
from kymograph._studies.study import about
from tests.studies.installing import install, workspace

__all__ = ["workspace"]

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
pytestmark = pytest.mark.usefixtures("workspace")
BUILT_IN = ["clipping", "depth", "snapshot", "calibration", "audit", "rule-family"]
PART = '\nPART = {"about": "Why?"}\nSTUDY = Mom\n'


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


@pytest.mark.science
def test_the_file_of_an_installed_study_is_that_study(workspace: Path) -> None:
    package = install(workspace, study=STUDY + PART)
    sources = {load_study(one).source for one in ("mom", str(package / "study.py"), "installed_lab.study:Mom")}
    assert len(sources) == 1 and None not in sources
    (workspace / "copy.py").write_text(STUDY)
    with pytest.raises(KymographError, match="calls itself 'mom', which is taken"):
        load_study("copy.py")
    depth = sys.modules[type(load_study("depth")).__module__].__file__
    assert load_study(str(depth)).source is None, "a built-in study named by its file is built in"


@pytest.mark.science
def test_built_in_studies_are_identified_by_their_version_and_those_of_other_distributions_by_their_source(
    workspace: Path,
) -> None:
    install(workspace, study=STUDY + PART)
    built_in, installed = built_in_studies(), load_study("mom")
    assert [study.name for study in built_in] == BUILT_IN
    assert all(study.source is None and study.version >= 1 for study in built_in)
    assert all(study.source is None for study in list_studies() if study.name in BUILT_IN)
    assert installed.source is not None and installed.specs([1])[0].source == installed.source
    assert "mom" not in {study.name for study in built_in}


@pytest.mark.science
def test_a_stored_name_never_imports_installed_code(workspace: Path) -> None:
    install(workspace, study="raise SystemExit('imported')\n" + STUDY + PART)
    assert registered_study("mom") is None and registered_study("depth") is not None
    assert "installed_lab.study" not in sys.modules


@pytest.mark.science
def test_a_study_that_cannot_be_loaded_is_left_out_of_the_list(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    install(workspace, study=STUDY + PART + "1 / 0\n")
    assert [study.name for study in list_studies()] == BUILT_IN
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("warning: ") and "division by zero" in lines[0]


def test_an_entry_point_may_name_the_class(workspace: Path) -> None:
    install(workspace, entry="mom = installed_lab.study:Mom", study=STUDY)
    assert load_study("mom").question == "Why?"


FIGURES = """
from kymograph._studies.study import StudyFigure

class Drawn(Mom):
    def figures(self):
        return {"mom-own": StudyFigure(own, "mine", "fig1", from_files=own_from_files), "mom-plain": plain}

def own(store, spread="std"):
    from matplotlib.figure import Figure
    return Figure()

def own_from_files(paths, style=None, venue=None):
    from matplotlib.figure import Figure
    return Figure(label=" ".join(paths))

def plain(store):
    \"\"\"Draws nothing.\"\"\"
    return own(store)

STUDY = Drawn
"""


def test_a_study_in_one_file_draws_with_its_own_functions(workspace: Path) -> None:
    (workspace / "mom.py").write_text(STUDY + FIGURES)
    kymograph.run("mom.py:Drawn", seeds=[1], out="runs", quiet=True)
    study, store = load_study("mom.py:Drawn"), Store.open("runs")
    assert figure("mom-own", store, studies=[study]).axes == []
    assert figure("mom-plain", store, studies=[study]).axes == []
    assert [about(draw) for draw in study.figures().values()] == ["mine", "Draws nothing."]
    with pytest.raises(KymographError, match="mom-absent"):
        figure("mom-absent", store, studies=[study])


def test_a_package_imports_its_training_itself(workspace: Path) -> None:
    """Functions used to be found by the names of the files they are in, which no editor can follow."""
    (workspace / "lab").mkdir()
    (workspace / "lab" / "__init__.py").write_text(
        STUDY[: STUDY.index("        return [RunResult")]
        + "        from lab.training import trained\n\n        return [trained(spec) for spec in specs]\n"
    )
    training = (
        "import numpy as np\nfrom kymograph import RunResult, RunSeries\n"
        "def trained(spec):\n    return RunResult({'x': RunSeries(np.arange(2), np.arange(2.0))}, {'end': 2.0})\n"
    )
    (workspace / "lab" / "training.py").write_text(training)
    (first,) = kymograph.run("lab", seeds=[1], out="runs", quiet=True)
    assert first.summary == {"end": 2.0}
    (workspace / "lab" / "training.py").write_text(training.replace("2.0}", "3.0}"))
    (second,) = kymograph.run("lab", seeds=[1], out="runs", quiet=True)
    assert second.id != first.id and second.summary == {"end": 3.0}, "what it imports is part of its identity"


def test_a_figure_is_drawn_from_files_of_another_program(workspace: Path) -> None:
    install(workspace, study=STUDY + PART + FIGURES)
    assert figure_from_files("mom-own", ["a.json", "b.json"]).get_label() == "a.json b.json"
    with pytest.raises(KymographError, match="cannot be chosen; drop --spread"):
        figure_from_files("mom-own", ["a.json"], spread="sem")
    with pytest.raises(KymographError, match="no figure 'mom-plain' is drawn from such files"):
        figure_from_files("mom-plain", ["a.json"])


def test_a_study_edited_during_its_sweep_ends_the_sweep_once(workspace: Path) -> None:
    """Every run that was left used to be recorded as failed."""
    edit = "        with open(__file__, 'a') as file:\n            file.write('EDITED = True')\n"
    (workspace / "mom.py").write_text(STUDY.replace("        return [RunR", f"{edit}        return [RunR"))
    with pytest.raises(KymographError, match="the code of mom changed while its runs were waiting"):
        kymograph.run("mom.py", seeds=[1, 2, 3], out="runs", quiet=True)
    store = Store.open("runs")
    assert len(store.finished) == 1 and not store.failed.runs
