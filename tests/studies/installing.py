"""A current directory of its own for a test, and packages installed into it as pip does."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph import _registry as registry
from kymograph._sweep import code_loading


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory; what a test imports or installs is forgotten."""
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.setattr(code_loading, "_added", [])
    monkeypatch.setattr(code_loading, "_hashed", {})
    before = set(sys.modules)
    with contextlib.chdir(tmp_path):
        yield tmp_path
    registry._in_packages.cache_clear()
    for name in set(sys.modules) - before:
        if not name.startswith(("kymograph", "torch", "matplotlib", "numpy", "scipy", "sklearn")):
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
