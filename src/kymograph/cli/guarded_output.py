"""Guards what the command line prints: no text from a file can control the terminal, and any text can be encoded.

Everything printed goes through here, so that no verb has to think of it. Only Rich, which colours and draws, bypasses
it; the text it is given is made `visible` first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from kymograph.wording import visible

P = ParamSpec("P")
T = TypeVar("T")


class GuardedStream:
    """A stream of text in which control characters are written as their codes."""

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream
        """The stream itself, by the name under which Rich looks for it."""

    def write(self, text: str) -> int:
        """Writes text with its control characters made visible."""
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Guards standard output and standard error for the length of a ``with`` block."""
    before = sys.stdout, sys.stderr
    for stream in before:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # for ASCII terminals
    with contextlib.ExitStack() as opened:
        # A stream that the caller closed is None, and to print to None is to print to standard output.
        streams = [opened.enter_context(open(os.devnull, "w")) if stream is None else stream for stream in before]
        sys.stdout, sys.stderr = (
            stream if isinstance(stream, GuardedStream) else GuardedStream(stream) for stream in streams
        )
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextlib.contextmanager
def unguarded_output() -> Iterator[None]:
    """Lifts the guard for the length of a ``with`` block, for help texts that a library colours itself."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (getattr(stream, "rich_proxied_file", stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """Makes a function print through the guard, the sentences of its errors included."""

    @functools.wraps(function)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> T:
        with guarded_output():
            return function(*arguments, **named)

    return wrapped
