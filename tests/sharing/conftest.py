"""A small user-defined study's runs, and a bundle of them with its code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kymograph
from kymograph._sharing.bundle import write_bundle
from tests.sharing.bundles import code
from tests.studies.tossing import REFERENCE


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a user-defined study with its code."""
    root = tmp_path_factory.mktemp("bundle")
    kymograph.run(REFERENCE, n_seeds=3, out=root / "runs", quiet=True, engine="serial")
    write_bundle(root / "runs", root / "runs.zip", code())
    return root / "runs.zip"


@pytest.fixture
def runs(bundle: Path, tmp_path: Path) -> Path:
    """A copy of the runs, to be changed."""
    return Path(shutil.copytree(bundle.parent / "runs", tmp_path / "runs"))
