"""A worker process: reads stacks as JSON lines, computes them on one thread, answers with progress and outcomes.

Started as ``python -m kymograph.sweep.worker`` rather than through `multiprocessing`, so that a user's script or
notebook needs no main guard and nothing is pickled.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
from typing import Any

from kymograph.errors import KymographError
from kymograph.sweep.orders import Order


def main() -> None:
    """Computes what comes on standard input until it ends."""
    _die_with_parent()
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

    from kymograph.sweep.compute import compute
    from kymograph.sweep.devices import choose_device, import_torch
    from kymograph.sweep.engines.serial import workplace

    import_torch().set_num_threads(1)
    for line in sys.stdin:
        order = Order.from_json(json.loads(line))
        try:
            outcomes = compute(order.load_study(), order.stack, workplace(order, choose_device(order.device), Parent()))
            answer(outcomes=[dataclasses.asdict(outcome) for outcome in outcomes])
        except KymographError as error:
            answer(error=str(error))


def _die_with_parent() -> None:
    """Asks Linux to end this process when its parent ends, so that a killed sweep leaves nothing running."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
