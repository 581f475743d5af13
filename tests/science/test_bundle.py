"""Bundles of built-in studies: users' data sets go with the runs, and bundles of version 0.1 are still verified."""

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
from kymograph._sharing.bundle import write_bundle
from kymograph._sharing.verify import all_hold, verify_bundle
from kymograph._sweep import code_loading
from kymograph_studies.data import DATA_SETS
from tests.sharing.bundles import elsewhere, rewritten

IMAGES = """
from installed_images.size import COUNT
from kymograph_studies.data.images import load_synthetic
PART = {"about": "few images", "training_images": 64}
def load(directory=None):
    return load_synthetic(n_train=COUNT, n_test=32)
"""


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's package with a data set, installed, and runs of a built-in study on it."""
    site = tmp_path / "site-packages"
    package, information = site / "installed_images", site / "installed_images-1.dist-info"
    package.mkdir(parents=True)
    information.mkdir()
    for name, text in {"__init__": "", "few": IMAGES, "size": "COUNT = 64\n"}.items():
        (package / f"{name}.py").write_text(text)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-images\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[kymograph.data]\nfew = installed_images.few\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(code_loading, "_hashed", {})
    registry.forget_packages()
    tiny = {"data": "few", "depth": 1, "width": 8, "epochs": 1, "device": "cpu", "quiet": True}
    store = kymograph.run("snapshot", seeds=[1], arms=["resmlp/bp"], out=tmp_path / "runs", **tiny)  # type: ignore[arg-type]
    assert not store.failed.runs
    yield package
    registry.forget_packages()
    for name in [name for name in sys.modules if name.startswith("installed_images")]:
        del sys.modules[name]


@pytest.mark.slow
def test_users_parts_go_with_the_runs(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    bundle = tmp_path / "runs.zip"
    write_bundle(tmp_path / "runs", bundle)
    assert capsys.readouterr().err == ""
    with zipfile.ZipFile(bundle) as found:
        packed = {name: found.read(name).decode() for name in found.namelist() if name.startswith("parts/")}
    assert packed == {f"parts/installed_images/{path.name}": path.read_text() for path in images.glob("*.py")}
    verified = elsewhere(tmp_path / "elsewhere", "verify", str(bundle), "--rerun", "1")
    assert verified.returncode == 0 and "the same bits" in verified.stdout, verified.stdout + verified.stderr
    first, *_ = verify_bundle(
        rewritten(bundle, tmp_path / "x.zip", parts_installed_images_size_py=b"COUNT = 63\n"), rerun=1
    )
    assert not first.holds and first.detail == "the code of the data set few is not what made its runs"


def test_loading_a_bundles_parts_leaves_no_trace(images: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "runs.zip"
    write_bundle(tmp_path / "runs", bundle)
    shutil.rmtree(tmp_path / "site-packages")
    for name in [name for name in sys.modules if name.startswith("installed_images")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    registry.forget_packages()
    path, modules = list(sys.path), set(sys.modules)
    *_, last = verify_bundle(bundle, rerun=1)
    assert last.holds and last.detail == "the same bits"
    assert sys.path == path and not [name for name in {*sys.modules} - modules if "installed_images" in name]
    assert "few" not in DATA_SETS.names()


@pytest.mark.slow
def test_a_part_that_is_gone_or_was_edited_is_named(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    bundle = tmp_path / "runs.zip"
    write_bundle(tmp_path / "runs", bundle)
    (images / "size.py").write_text("COUNT = 65\n")
    wrong = [finding.detail for finding in verify_bundle(bundle, rerun=1) if not finding.holds]
    assert "the data set few installed here is not the one in the bundle" in wrong[0]
    assert all_hold(verify_bundle(bundle))
    write_bundle(tmp_path / "runs", bundle)
    assert capsys.readouterr().err == "note: the code of the data set few is not in the bundle: it was edited since\n"
    shutil.rmtree(tmp_path / "site-packages")
    importlib.invalidate_caches()
    registry.forget_packages()
    write_bundle(tmp_path / "runs", bundle)
    assert (
        capsys.readouterr().err == "note: the code of the data set few is not in the bundle: it is not installed here\n"
    )
    assert all_hold(verify_bundle(bundle))
    *_, last = verify_bundle(bundle, rerun=1)
    assert not last.holds and "there is no data set 'few'" in last.detail


def test_a_bundle_of_version_0_1_is_verified_and_computed_again(golden: Path) -> None:
    """Commit 22fc599 wrote it: a calibration whose null is a user's, in the group of that time."""
    with zipfile.ZipFile(golden / "bundle_22fc599.zip") as bundle:
        assert b'"group": "kymograph.analysis.nulls"' in bundle.read("manifest.json")
    results = verify_bundle(golden / "bundle_22fc599.zip", rerun=1)
    assert all_hold(results) and "computed again" in results[-1].what, [str(result) for result in results]
    assert not any(name.startswith("installed_lab") for name in sys.modules), "what was loaded is forgotten"
