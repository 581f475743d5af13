"""A run is recorded once at a time, whoever records it; the lock of a process that is gone is taken over."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import kymograph as ky
from kymograph._errors import KymographError
from kymograph._experiments import recorded_loop
from kymograph._io.processes import SILENCE, Process
from kymograph._runs.directory import Directory
from kymograph._sweep import heartbeat

ROOT = Path(__file__).parents[2]
ELSEWHERE = Process("elsewhere", "0" * 8, 4711, "5")


@pytest.fixture(autouse=True)
def in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a main program: a worker of pytest-xdist has none, like an interpreter without a file."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)


def start(out: Path, seed: int = 1, **options: Any) -> Any:
    return ky.record("mine", arm="a", seed=seed, out=out, **options)


def lock_of(out: Path) -> Path:
    (lock,) = out.glob("mine/.*.recording")
    return lock


def hidden(out: Path) -> list[str]:
    return [path.name for path in out.glob("mine/.*")]


def tree(out: Path) -> dict[str, Any]:
    """Returns every file below ``out`` but heartbeats, which go on."""
    paths = [path for path in out.rglob("*") if ".running" not in path.parts]
    return {str(path): os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes() for path in paths}


def test_a_second_recording_in_one_process_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    """The second used to remove the state of the first when it ended, and its record was replaced unawares."""
    run = start(tmp_path)
    run.log(x=1.0)
    before = tree(tmp_path)
    words = f"mine, a, seed 1 is already being recorded by process {os.getpid()} (on "
    with pytest.raises(KymographError, match=re.escape(words)) as caught:
        start(tmp_path)
    assert "run.finish()" in str(caught.value) and "run.close()" in str(caught.value) and tree(tmp_path) == before
    with start(tmp_path, seed=2) as other:
        other.log(x=2.0)
    run.finish()
    assert hidden(tmp_path) == [] and len(ky.Store.open(tmp_path).finished) == 2


def test_a_recording_that_was_given_up_is_missing_and_can_be_started_again(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.close()
    run.close()
    with pytest.raises(KymographError, match="has already ended"):
        run.finish()
    assert hidden(tmp_path) == [] and not list(tmp_path.rglob("status.json"))
    with start(tmp_path) as again:
        again.close()
    with start(tmp_path) as again:
        again.log(x=1.0)
    assert len(ky.Store.open(tmp_path).finished) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_block_that_was_interrupted_can_be_executed_again(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), start(tmp_path):
        raise error
    assert hidden(tmp_path) == []
    start(tmp_path).finish()


def test_a_recording_that_nobody_refers_to_has_ended(tmp_path: Path) -> None:
    run = start(tmp_path)
    beats = len(threading.enumerate())
    del run
    gc.collect()
    assert hidden(tmp_path) == [] and len(threading.enumerate()) == beats - 1
    run = start(tmp_path)
    run.itself = run  # in a cycle
    del run
    start(tmp_path).finish()


def test_a_failed_start_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise KymographError("no")

    monkeypatch.setattr(Directory, "plan", fail)
    with pytest.raises(KymographError, match="no"):
        start(tmp_path)
    assert hidden(tmp_path) == []


OTHER = """
import sys
import kymograph as ky
run = ky.record("mine", arm="a", seed=1, out=sys.argv[1])
print("recording", flush=True)
if sys.stdin.readline() == "finish\\n":
    run.finish()
"""


def other_process(out: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def test_another_process_records_the_run(tmp_path: Path) -> None:
    with other_process(tmp_path) as other:
        assert other.stdout is not None and other.stdout.readline() == "recording\n"
        before = tree(tmp_path)
        with pytest.raises(KymographError, match=rf"already being recorded by process {other.pid} \(on .*; wait until"):
            start(tmp_path)
        assert tree(tmp_path) == before
        other.kill()
    assert lock_of(tmp_path).is_symlink(), "it could not release its lock"
    start(tmp_path).finish()
    assert hidden(tmp_path) == []


@pytest.mark.slow
def test_one_of_many_processes_that_start_at_once_records_the_run(tmp_path: Path) -> None:
    for _ in range(3):
        others = [other_process(tmp_path) for _ in range(4)]
        ended = [other.communicate("finish\n", timeout=120) for other in others]
        assert sum(out == "recording\n" for out, _ in ended) == 1
        for out, errors in ended:
            assert out or "is already being recorded by process" in errors or "is already recorded in" in errors
        assert hidden(tmp_path) == []
        (run,) = ky.Store.open(tmp_path).finished
        for path in run.directory.iterdir():
            path.unlink()
        run.directory.rmdir()


@pytest.mark.slow
def test_a_process_that_ends_without_a_word_releases_its_lock(tmp_path: Path) -> None:
    with other_process(tmp_path) as other:
        other.communicate("")
    assert hidden(tmp_path) == [] and other.returncode == 0


def leave_elsewhere(out: Path, silent: float) -> Path:
    """Leaves the lock of a process on another host that gave its last sign of life ``silent`` seconds ago."""
    start(out).close()
    run = start(out)
    lock = lock_of(out)
    run.close()
    os.symlink(ELSEWHERE.mark, lock)
    then = time.time() - silent
    os.utime(lock, (then, then), follow_symlinks=False)
    return lock


def test_the_lock_of_another_host_is_taken_over_once_it_is_silent(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(recorded_loop, "_WAIT", 0.02)
    lock = leave_elsewhere(tmp_path, SILENCE - 0.3)
    run = start(tmp_path)  # waits for the rest of the minute: a cluster may have moved the job
    assert os.readlink(lock) == Process.this().mark
    run.finish()


def test_another_host_that_gives_a_sign_of_life_keeps_the_run(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded_loop, "_WAIT", 0.02)
    lock = leave_elsewhere(tmp_path, 30)
    renewed = threading.Timer(0.2, lambda: os.utime(lock, follow_symlinks=False))
    renewed.start()
    with pytest.raises(KymographError, match=r"already being recorded by process 4711 \(on elsewhere\)"):
        start(tmp_path)
    renewed.join()
    assert capsys.readouterr().err == "note: waiting for a sign of life from process 4711 (on elsewhere)\n"


def test_the_lock_of_a_recording_stays_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.01)
    monkeypatch.setattr(heartbeat, "PROOF_OF_LIFE", 0.01)
    with start(tmp_path):
        lock = lock_of(tmp_path)
        os.utime(lock, (1.0, 1.0), follow_symlinks=False)
        deadline = time.monotonic() + 40
        while lock.lstat().st_mtime < 2.0:
            assert time.monotonic() < deadline


def test_a_recording_whose_run_was_taken_over_touches_nothing(tmp_path: Path) -> None:
    """As after a laptop's sleep, when another host has gone on with the run."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    with (
        pytest.raises(KymographError, match=r"has been taken over by process 4711 \(on elsewhere\)"),
        start(tmp_path) as run,
    ):
        run.resumable(optimizer=optimizer, every=1)
        for step in run.steps(3):
            if step == 1:
                lock = lock_of(tmp_path)
                lock.unlink()
                os.symlink(ELSEWHERE.mark, lock)
                (state,) = tmp_path.glob("mine/*.part/*")
                saved = state.read_bytes()
    assert os.readlink(lock) == ELSEWHERE.mark and state.read_bytes() == saved
    assert not list(tmp_path.rglob("status.json")), "not even a failure is recorded"


def test_a_run_of_other_code_that_is_skipped_is_pointed_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        start(tmp_path, seed).finish()
    start(tmp_path, 1, if_exists="skip").finish()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(recorded_loop, "_program", lambda file: "edited")
    for seed in (1, 2, 1):
        assert start(tmp_path, seed, if_exists="skip").exists
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "mine, a, seed 1 is skipped, but other code than this program recorded it" in said


def test_a_run_of_unknown_code_is_skipped_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recorded_loop, "_program", lambda file: None)
        start(tmp_path).finish()
    start(tmp_path, if_exists="skip").finish()
    assert capsys.readouterr().err == ""
