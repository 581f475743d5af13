"""A module in the current directory that is called like one of the standard library is executed by nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kymograph

ROOT = Path(kymograph.__file__).parents[1]
TRAP = "open({path!r}, 'a').write(__name__)\nraise SystemExit('executed')\n"
QUICK = ("--seeds", "1", "2", "--steps", "3", "--quiet", "--workers", "2")


def trapped(directory: Path) -> Path:
    """Puts traps into a directory; returns the file that an executed one leaves."""
    sign = directory.parent / "executed"
    for name in ("random", "queue", "secrets", "tomllib", "uuid"):
        (directory / f"{name}.py").write_text(TRAP.format(path=str(sign)))
    return sign


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "processes", "dask"])
def test_no_engine_executes_what_lies_in_the_current_directory(tmp_path: Path, engine: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    sign = trapped(here)
    done = subprocess.run(
        [sys.executable, "-m", "kymograph", "run", "depth", *QUICK, "--arms", "plain", "--engine", engine],
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert not sign.exists() and done.returncode == 0, done.stderr
    assert "2 runs computed" in done.stdout


def test_python_m_kymograph_does_not_import_from_the_current_directory(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    sign = trapped(here)
    done = subprocess.run(
        [sys.executable, "-m", "kymograph", "list"],
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and not sign.exists(), done.stderr
