"""What the command line prints: no text from a file can control the terminal, help fits its width, slow work shows a bar.

[cli.guarded_output] Guards what the command line prints: no text from a file can control the terminal, and any text can be encoded.

Everything printed goes through here, so that no verb has to think of it. Only Rich, which colours and draws, bypasses
it; the text it is given is made `visible` first.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TextIO, TypeVar

from kymograph.wording import folded, line_width, visible

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


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class _HeldOutput(io.StringIO):
    """Collects what is written to a stream, and otherwise looks like it, so that colours and frames stay the same."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return self._stream.encoding


@contextlib.contextmanager
def fitting_output() -> Iterator[None]:
    """Folds the lines that are printed in a ``with`` block to the terminal's width; they appear at its end."""
    stream = sys.stdout
    if stream is None:
        yield
        return
    held = _HeldOutput(stream)
    try:
        with contextlib.redirect_stdout(held):
            yield
    finally:
        stream.write(fit(held.getvalue(), line_width()))


def fit(text: str, width: int) -> str:
    r"""Returns text whose lines are folded to ``width`` columns, not counting colours.

    >>> fit("usage: a [-h]\n\nshort", 10)
    'usage: a\n  [-h]\n\nshort'
    """
    return "\n".join(
        line if len(_COLOUR.sub("", line)) <= width else folded(line, width, further="  " if "usage" in line else "")
        for line in text.split("\n")
    )


def columns(rows: list[tuple[str, str]], width: int, indent: str = "  ") -> str:
    """Returns names with texts about them, as two columns; texts that are too long continue below themselves.

    >>> print(columns([("run", "run a study"), ("list", "the studies")], 16))
      run   run a
            study
      list  the
            studies
    """
    left = max((len(name) for name, _ in rows), default=0)
    further = " " * (len(indent) + left + 2)
    return "\n".join(folded(about, width, f"{indent}{name:<{left}}  ", further) for name, about in rows)


DELAY = 2.0
"""Seconds before the bar appears."""


@contextlib.contextmanager
def progress(total: int | None) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with the name of each step; after two seconds a bar shows it, and the time remaining.

    ``total`` is the number of steps, if known.
    """
    if sys.stderr is None or not sys.stderr.isatty():  # None if the caller closed it
        yield lambda doing: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)
    begun = 0

    def begin(doing: str) -> None:
        nonlocal begun
        bar.update(task, description=doing, completed=begun)
        begun += 1

    timer = threading.Timer(DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield begin
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
