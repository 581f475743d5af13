"""A worker answers, ends with its sweep, and executes nothing but what it was ordered to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kymograph
from kymograph._runs.directory import Directory
from kymograph._runs.store import Store
from kymograph._studies.loading import load_with_reference
from kymograph._sweep.orders import Stack, orders_for
from kymograph._sweep.progress import Progress
from kymograph._sweep.worker import carry_out
from tests.cli.command import write_coin
from tests.sweep.rigs import NOTES, STUDIES, Rig, contents, copy_study

ROOT = Path(kymograph.__file__).parents[1]
TRAP = "open({path!r}, 'a').write(__name__)\nraise SystemExit('executed')\n"
QUICK = ("--seeds", "1", "2", "--quiet", "--workers", "2")


def test_what_nobody_expected_of_a_worker_is_in_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault outside training used to end the worker: its traceback went nowhere."""

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("while looking around")

    monkeypatch.setattr("kymograph._sweep.worker.check_here", fail)
    (tmp_path / "runs").mkdir()
    path = write_coin(tmp_path)
    study, code = load_with_reference(str(path))
    specs = tuple(study.specs([1, 2], ["fair"], {}))
    (order,) = orders_for(code, [Stack(specs, (True, True), 2)], tmp_path / "runs", (), "cpu", None)
    answer = carry_out(order, Progress("", 1, 1, quiet=True))
    assert [outcome["reason"] for outcome in answer["outcomes"]] == ["ZeroDivisionError: while looking around"] * 2
    store = Store.of_specs(Directory(tmp_path / "runs"), specs)
    assert all("in fail" in (run.traceback or "") for run in store.failed) and len(store.failed) == 2


def workers_of(pid: int) -> set[int]:
    """Returns the worker processes that a sweep, in any of its threads, has started."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(word) for word in path.read_text().split() if is_worker(int(word))}
    return found


def is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"kymograph._sweep.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed as Linux lists them")
def test_workers_that_start_while_their_sweep_is_killed_compute_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take a second to start, and found their first order in the pipe after that: it was computed for nobody."""
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    process = Rig("processes").start(copy_study(tmp_path / "code"), (1, 2, 3, 4), tmp_path / "out")
    while not (workers := workers_of(process.pid)):
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(0.02)  # the order is in the pipe
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while any(map(is_worker, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_worker, workers)) and not contents(tmp_path / "out")


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
        [sys.executable, "-m", "kymograph", "run", str(STUDIES / "tossing.py"), *QUICK, "--engine", engine],
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert not sign.exists() and done.returncode == 0, done.stderr
    assert "4 runs computed" in done.stdout


def test_python_m_kymograph_does_not_import_from_the_current_directory(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    sign = trapped(here)
    done = subprocess.run(
        [sys.executable, "-m", "kymograph", "studies"],
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and not sign.exists(), done.stderr
