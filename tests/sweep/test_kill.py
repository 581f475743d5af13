"""Killing a sweep at random moments loses nothing, and what comes of it is the same to the bit."""

from __future__ import annotations

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


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_change_no_bit(tmp_path: Path) -> None:
    began = time.monotonic()
    assert start(tmp_path / "whole", "serial").wait() == 0
    length = time.monotonic() - began
    expected = contents(tmp_path / "whole")
    draw = random.Random(0)
    at_work = partial = 0
    for round_ in range(ROUNDS):
        out = tmp_path / f"round {round_}"
        survivors: set[str] = set()
        for number in range(KILLS_A_ROUND):
            process = start(out, ("serial", "processes")[(round_ + number) % 2])
            time.sleep(draw.uniform(0.2 * length, 0.8 * length))
            at_work += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            # A record that was being written when the kill came stays hidden, and is no run.
            stored = {str(path) for path in out.rglob("status.json") if not path.parent.name.startswith(".")}
            assert stored >= survivors, "a stored run was lost"
            survivors = stored
            partial += 0 < len(stored) < len(expected) // 2  # two files of each run are compared
        assert start(out, "serial").wait() == 0
        assert contents(out) == expected
    assert at_work >= 5, "the kills must hit sweeps that are at work"
    assert partial >= 1, "some kills must leave a sweep half done"
