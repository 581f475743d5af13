"""What the processes that a sweep starts have in common: their environment, and that they end with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Mapping

_PARENT = "KYMOGRAPH_PARENT"


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables and restores them on exit: a worker may serve several sweeps."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
