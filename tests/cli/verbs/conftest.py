"""Stored runs of a user-defined study, for the verbs that start from stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import QUICK, call, write_coin


@pytest.fixture(scope="session")
def coin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a user-defined study; two runs of it and one of `clipping` are in the directory `runs` beside it."""
    path = write_coin(tmp_path_factory.mktemp("coin"), "coin_stored.py")
    runs = str(path.parent / "runs")
    assert call("run", str(path), "--seeds", "1", "2", "--dir", runs, "--engine", "serial", "--quiet") == 0
    assert call("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", "--dir", runs, *QUICK) == 0
    return path
