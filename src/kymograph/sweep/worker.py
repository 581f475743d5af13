"""A worker process: reads orders as JSON lines, computes them on one thread, answers with progress and outcomes.

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
"""The option to answer with outcomes only, without progress, where the answers are a file on a shared disk."""
_PARENT = "KYMOGRAPH_PARENT"


def main() -> None:
    """Computes orders from standard input until it ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and closes or kills this process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    errors = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()  # None: it is closed
    os.dup2(errors, sys.stdout.fileno())  # a stray print must not look like an answer

    def answer(**message: Any) -> None:
        print(json.dumps(message), file=answers, flush=True)

    class Parent:
        """A follower at the other end of the pipe."""

        def tick(self, steps: int) -> None:
            """Passes the steps on."""
            answer(steps=steps)

        def say(self, text: str) -> None:
            """Passes the text on."""
            answer(say=text)

    from kymograph.sweep.carry_out import carry_out

    follower = Silence() if SILENT in sys.argv[1:] else Parent()
    for line in sys.stdin:
        answer(**carry_out(Order.from_json(parse_json(line.encode())), follower))


class Silence:
    """A follower that ignores progress, where it is read from the heartbeats."""

    def tick(self, steps: int) -> None:
        """Passes nothing on."""

    def say(self, text: str) -> None:
        """Passes nothing on."""


def child_environment() -> dict[str, str]:
    """Returns the environment for a program that calls `die_with_parent`; it names this process as the parent."""
    return {**os.environ, _PARENT: str(os.getpid())}


def die_with_parent() -> None:
    """Asks Linux to end this process when its parent ends, so that a killed sweep leaves nothing running.

    Exits if the parent has already ended: an order could still be in the pipe.
    """
    named = os.environ.pop(_PARENT, "")  # not for processes that this one starts
    parent = int(named) if named.isdecimal() else os.getppid()
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
