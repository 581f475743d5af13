"""Killing a sweep at random moments loses nothing, and what comes of it is the same to the bit."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROUNDS, KILLS_A_ROUND = 5, 4
# Eight stacks, so that a sweep is a series of moments at which something is or is not yet stored.
COMMAND = ["run", "clipping", "--seeds", "1", "2", "3", "--arms", "extreme/*", "moderate/*", "--n-samples", "500",
           "--n-rare", "12", "--quiet"]  # fmt: skip


def start(out: Path, engine: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "kymograph", *COMMAND, "--out", str(out), "--engine", engine]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def contents(root: Path) -> dict[str, bytes]:
    """Returns every file of every run that holds numbers or settings, but for the threads of the process."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.name in ("arrays.safetensors", "summary.json") and not path.parent.name.startswith(".")
    }


def stored(root: Path) -> set[str]:
    """Returns the records that are there; one that is being written is hidden, and is no run."""
    return {str(path) for path in root.glob("clipping/[!.]*/status.json")}


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_change_no_bit(tmp_path: Path) -> None:
    """A kill comes a random moment after a random number of runs is stored: slow machines are hit like fast ones."""
    assert start(tmp_path / "whole", "serial").wait() == 0
    expected = contents(tmp_path / "whole")
    runs = len(stored(tmp_path / "whole"))
    draw = random.Random(0)
    at_work = partial = 0
    for round_ in range(ROUNDS):
        out = tmp_path / f"round {round_}"
        survivors: set[str] = set()
        for number in range(KILLS_A_ROUND):
            process = start(out, ("serial", "processes")[(round_ + number) % 2])
            target = draw.randint(len(survivors), max(len(survivors), runs // 2))
            while process.poll() is None and len(stored(out)) < target:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.2 if target > len(survivors) else 2.0))
            at_work += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            now = stored(out)
            assert now >= survivors, "a stored run was lost"
            survivors = now
            partial += 0 < len(now) < runs
        assert start(out, "serial").wait() == 0
        assert contents(out) == expected
    assert at_work >= 5, "the kills must hit sweeps that are at work"
    assert partial >= 1, "some kills must leave a sweep half done"


def workers_of(pid: int) -> set[int]:
    """Returns the worker processes that a sweep, in any of its threads, has started."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(word) for word in path.read_text().split() if is_worker(int(word))}
    return found


def is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"kymograph.sweep.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed as Linux lists them")
def test_workers_that_start_while_their_sweep_is_killed_compute_nothing(tmp_path: Path) -> None:
    """They take a second to start, and found their first order in the pipe after that: it was computed for nobody."""
    process = start(tmp_path, "processes")
    while not (workers := workers_of(process.pid)):
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(0.02)  # the order is in the pipe
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while any(map(is_worker, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_worker, workers)) and not stored(tmp_path)
