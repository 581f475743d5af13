"""A worker process: reads stacks as JSON lines, computes them on one thread, answers with progress and outcomes.

Started as ``python -m kymograph.sweep.worker`` rather than through `multiprocessing`, so that a user's script or
notebook needs no main guard and nothing is pickled.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from kymograph.foreign.documents import parse_json
from kymograph.sweep.orders import Order

SILENT = "--silent"
"""Answers with outcomes only, not with progress: where the answers are a file on a shared disk."""
_PARENT = "KYMOGRAPH_PARENT"


def main() -> None:
    """Computes what comes on standard input until it ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes or kills us
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not look like an answer

    def answer(**message: Any) -> None:
        print(json.dumps(message), file=answers, flush=True)

    class Parent:
        """Follows the work from the other end of the pipe."""

        def tick(self, steps: int) -> None:
            """Passes steps on."""
            answer(steps=steps)

        def say(self, text: str) -> None:
            """Passes a line on."""
            answer(say=text)

    from kymograph.sweep.carry_out import carry_out

    follower = Silence() if SILENT in sys.argv[1:] else Parent()
    for line in sys.stdin:
        answer(**carry_out(Order.from_json(parse_json(line.encode())), follower))


class Silence:
    """Follows nothing, for whoever reads progress from the heartbeats."""

    def tick(self, steps: int) -> None:
        """Passes nothing on."""

    def say(self, text: str) -> None:
        """Passes nothing on."""


def started_by_us() -> dict[str, str]:
    """Returns the environment of a program that is to `die_with_parent`: it says who started it."""
    return {**os.environ, _PARENT: str(os.getpid())}


def die_with_parent() -> None:
    """Asks Linux to end this process when its parent ends, so that a killed sweep leaves nothing running.

    Its parent may have ended before it came to this, and its first order may be in the pipe nevertheless.
    """
    named = os.environ.pop(_PARENT, "")  # not meant for what this process starts
    parent = int(named) if named.isdecimal() else os.getppid()
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
