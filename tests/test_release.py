"""What is released: a wheel and an sdist that work where nothing else of this tree is, and the files beside them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import kymograph

ROOT = Path(__file__).parent.parent


def test_the_version_is_in_one_place_and_cited() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    citation = (ROOT / "CITATION.cff").read_text()
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/kymograph/__init__.py"
    assert re.findall(r"^version: (.+)", citation, re.MULTILINE) == [kymograph.__version__]
    assert "name: Kymograph contributors" in citation and "http" not in citation, "no address is made up"


def test_the_containers_are_described_by_files_that_exist() -> None:
    described = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / described["build"]["dockerfile"]).exists()
    for target in described["postCreateCommand"].removeprefix("make ").split():
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()
    for name in re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE):
        assert all((ROOT / word).exists() for word in name.split())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return out


@pytest.mark.slow
def test_wheel_and_sdist_hold_what_they_need_and_nothing_private(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    packed = zipfile.ZipFile(wheel).namelist()
    tree = {f"kymograph/{path.relative_to(ROOT / 'src/kymograph')}" for path in (ROOT / "src/kymograph").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}  # fmt: skip
    assert tree <= set(packed) and "kymograph/py.typed" in packed
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"README.md", "CITATION.cff", "Makefile", "constraints.txt", "examples/recorded_loop.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs", ".git/"))]


@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """Everything but this package comes from the environment of the tests, through a path that installs nothing."""
    home = tmp_path / "env"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, timeout=120)
    (site,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file is searched, but the .pth files in it (this tree's editable install) are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = run(str(python), "-c", "import kymograph; print(kymograph.__file__)")
    assert where.startswith(str(home)), "not this tree"
    command = str(home / "bin" / "kymograph")
    small = ("--layers", "3", "--width", "8", "--steps", "6", "--n-seeds", "6")
    assert "30 runs computed" in run(command, "run", "depth", *small, "--workers", "1")
    assert "claims:" in run(command, "judge", "runs")
    run(command, "report", "runs", "-o", "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert "new_study.py" in run(command, "new", "study", "new_study")
