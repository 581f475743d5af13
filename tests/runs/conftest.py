"""Stored runs of a small study, which the tests of this directory read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kymograph
from kymograph._runs.store import Store
from tests.studies import walks


@pytest.fixture(scope="session")
def walk_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three seeds of the four arms of `walks`."""
    out = tmp_path_factory.mktemp("walks")
    return kymograph.run(walks.REFERENCE, seeds=[42, 123, 456], out=out, quiet=True, engine="serial")


@pytest.fixture
def walk_directory(tmp_path: Path, walk_store: Store) -> Path:
    """A copy of these runs."""
    assert walk_store.root is not None
    shutil.copytree(walk_store.root, tmp_path / "runs")
    return tmp_path / "runs"
