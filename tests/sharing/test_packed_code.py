"""The code in a bundle: what made the runs is packed, checked, and loaded without a trace."""

from __future__ import annotations

import importlib
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kymograph
from kymograph import _registry as registry
from kymograph._errors import KymographError
from kymograph._sharing.bundle import unpacked, write_bundle
from kymograph._sharing.verify import all_hold, verify_bundle
from kymograph._studies.loading import load_with_reference
from kymograph._sweep import code_loading
from tests.sharing.bundles import code, elsewhere, rewritten

DRAWN = """
from dataclasses import dataclass
import numpy as np
from kymograph import Arm, RunResult, RunSeries, Study
from kymograph._registry import Registry
NULLS = Registry("{group}", attribute="draw")
@dataclass(frozen=True)
class DrawnConfig:
    \"\"\"Settings.\"\"\"
    null: str = "ramp"
    \"\"\"The null.\"\"\"
class Drawn(Study[DrawnConfig]):
    name, question, config_type = "drawn", "What is drawn?", DrawnConfig
    def arms(self):
        return [Arm("only", default=True)]
    def parts(self, config):
        return [(NULLS, config.null)]
    def train(self, specs, work):
        series = [NULLS.load(spec.config.null)(spec.seed) for spec in specs]
        return [RunResult({{"x": RunSeries(np.arange(2), values)}}, {{}}) for values in series]
"""
RAMP = """
import numpy as np
from installed_nulls.slope import SLOPE
PART = {"about": "a straight line"}
def draw(seed):
    return np.array([0.0, SLOPE * seed])
"""


def test_code_that_did_not_make_the_runs_does_not_verify(bundle: Path, tmp_path: Path) -> None:
    assert all_hold(verify_bundle(rewritten(bundle, tmp_path / "same.zip")))
    with zipfile.ZipFile(bundle) as found:
        text = found.read("code/tossing/tests/studies/tossing.py")
    other = rewritten(bundle, tmp_path / "other.zip", code_tossing_tests_studies_tossing_py=text + b"EDITED = True\n")
    first, *_ = verify_bundle(other, rerun=1)
    assert not first.holds and first.detail == "the code of tossing is not what made its runs"


def test_a_study_that_was_edited_since_or_has_no_run_is_refused(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path(__file__).parents[1] / "studies" / "tossing.py"
    Path("tossing.py").write_text(source.read_text() + "EDITED = True\n")
    with pytest.raises(KymographError, match=r"the code of tossing was edited since its runs were made .*restore"):
        write_bundle(runs, "x.zip", {"tossing": load_with_reference("tossing.py")[1]})
    with pytest.raises(KymographError, match="contains no runs of other; drop its --study"):
        write_bundle(runs, "x.zip", {"other": code()["tossing"]})
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["tossing.py"]


@pytest.mark.slow
def test_a_script_in_a_package_finds_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was packed under the name of its import, where its hash was another."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(code_loading, "_added", [])
    package = tmp_path / "package"
    package.mkdir()
    source = (Path(__file__).parents[1] / "studies" / "tossing.py").read_text()
    texts = {
        "__init__": "",
        "beside_it": "",
        "script": source.replace("import numpy", "import beside_it\nimport numpy"),
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    reference = str(package / "script.py")
    kymograph.run(reference, seeds=[1], out=tmp_path / "runs", quiet=True, engine="serial")
    write_bundle(tmp_path / "runs", tmp_path / "x.zip", {"tossing": load_with_reference(reference)[1]})
    found = elsewhere(tmp_path / "elsewhere", "verify", str(tmp_path / "x.zip"), "--rerun", "1")
    assert found.returncode == 0 and "the same bits" in found.stdout, found.stdout + found.stderr


def test_a_study_whose_code_is_not_named_is_noted(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_bundle(runs, tmp_path / "x.zip")
    assert capsys.readouterr().err == "note: the code of tossing is not in the bundle; name it with --study\n"
    *_, last = verify_bundle(tmp_path / "x.zip", rerun=1)
    assert not last.holds and "its study's code is not here" in last.detail


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of installed packages, with one that has a part; what is imported from it is forgotten."""
    site = tmp_path / "site-packages"
    package, information = site / "installed_nulls", site / "installed_nulls-1.dist-info"
    package.mkdir(parents=True)
    information.mkdir()
    for name, text in {"__init__": "", "ramp": RAMP, "slope": "SLOPE = 0.5\n"}.items():
        (package / f"{name}.py").write_text(text)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-nulls\nVersion: 1\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.setattr(code_loading, "_added", [])
    monkeypatch.setattr(code_loading, "_hashed", {})
    registry._in_packages.cache_clear()
    yield site
    registry._in_packages.cache_clear()
    for name in [name for name in sys.modules if name.startswith("installed_nulls")]:
        del sys.modules[name]


@pytest.mark.parametrize("group", ["kymograph.nulls", "kymograph.quantities", "kymograph.accelerators"])
def test_a_part_in_a_former_group_is_verified_and_computed_again(installed: Path, tmp_path: Path, group: str) -> None:
    """Groups were named after our packages until version 0.1; bundles that say so are read for ever."""
    former = registry._FORMER_GROUPS[group]
    (installed / "installed_nulls-1.dist-info" / "entry_points.txt").write_text(
        f"[{former}]\nramp = installed_nulls.ramp\n"
    )
    (tmp_path / "drawn.py").write_text(DRAWN.format(group=group))
    study = str(tmp_path / "drawn.py")
    store = kymograph.run(study, seeds=[3], out=tmp_path / "runs", quiet=True, engine="serial")
    assert not store.failed.runs, [run.reason for run in store.failed]
    write_bundle(tmp_path / "runs", tmp_path / "new.zip", {"drawn": load_with_reference(study)[1]})

    def rename_group(manifest: dict) -> None:
        (part,) = manifest["parts"].values()
        assert part["group"] == group
        part["group"] = former

    old = rewritten(tmp_path / "new.zip", tmp_path / "old.zip", rename_group)
    shutil.rmtree(installed)
    importlib.invalidate_caches()
    for bundle in (tmp_path / "new.zip", old):
        results = verify_bundle(bundle, rerun=1)
        assert all_hold(results) and results[-1].detail == "the same bits", [str(result) for result in results]


def test_words_that_lead_out_of_the_manifest_are_refused(bundle: Path, tmp_path: Path) -> None:
    """A group or a name with a line break would add entry points of its own when the parts are registered."""
    part = {"group": "kymograph.rules", "name": "x", "module": "x", "attribute": "", "source": "0", "files": ["x.py"]}
    for change in (
        {"group": "a]\n[b"},
        {"module": "os;x"},
        {"attribute": "a b"},
        {"name": "x\ny"},
        {"files": ["../x"]},
    ):
        hostile = rewritten(
            bundle, tmp_path / "x.zip", lambda manifest, change=change: manifest["parts"].update(x={**part, **change})
        )
        with pytest.raises(KymographError, match="not a bundle of runs"), unpacked(hostile):
            pass
