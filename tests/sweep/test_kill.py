"""Killing a sweep at random moments loses nothing, and what comes of it is the same to the bit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

KILLS = 20
# Eight stacks, so that a sweep is a series of moments at which something is or is not yet stored.
COMMAND = ["run", "clipping", "--seeds", "1", "2", "3", "--arms", "extreme/*", "moderate/*", "--n-samples", "240",
           "--n-rare", "12", "--quiet"]  # fmt: skip


def start(out: Path, engine: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "kymograph", *COMMAND, "--out", str(out), "--engine", engine]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def contents(root: Path) -> dict[str, bytes]:
    """Returns every file of every run that holds numbers or settings, but for the threads of the process."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.name in ("arrays.safetensors", "summary.json")
    }


def test_twenty_kills_lose_nothing_and_change_no_bit(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole", "serial")
    began = time.monotonic()
    assert whole.wait() == 0
    length = time.monotonic() - began
    draw = random.Random(0)
    survivors: set[str] = set()
    killed = 0
    for number in range(KILLS):
        engine = ("serial", "processes")[number % 2]
        # Late enough to have begun, and early enough that the last of them still finds something to do.
        process = start(tmp_path / "killed", engine)
        time.sleep(draw.uniform(0.1, 0.9) * min(length, 2.5))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        stored = {str(p) for p in (tmp_path / "killed").rglob("status.json")}
        assert stored >= survivors, "a stored run was lost"
        survivors = stored
    last = start(tmp_path / "killed", "serial")
    assert last.wait() == 0, last.stderr.read() if last.stderr else ""
    assert killed >= KILLS // 2, "most kills must hit a sweep that is still at work"
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
