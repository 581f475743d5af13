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
