"""What the command line prints: no text from a file controls the terminal, help fits its width, slow work shows a bar.

Everything printed goes through here, so that no verb has to think of it. Only Rich, which colours and draws, bypasses
the guard; the text it is given is made `visible` first.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kymograph._wording import folded, line_width, visible


class FilteredStream:
    """A stream that changes every text before it is written, and otherwise is the stream below it."""

    def __init__(self, stream: Any, change: Callable[[str], str]) -> None:
        self.rich_proxied_file = stream
        """The stream below, by the name under which Rich looks for it."""
        self.change = change

    def write(self, text: str) -> int:
        """Writes the changed text."""
        self.rich_proxied_file.write(self.change(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """Makes control characters visible that a ``with`` block prints, and any text encodable."""
    before = sys.stdout, sys.stderr
    for stream in before:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # for ASCII terminals
    with contextlib.ExitStack() as opened:
        # A stream that the caller closed is None, and to print to None is to print to standard output.
        streams = [opened.enter_context(open(os.devnull, "w")) if stream is None else stream for stream in before]
        sys.stdout, sys.stderr = (
            stream if isinstance(stream, FilteredStream) else FilteredStream(stream, visible) for stream in streams
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


@contextlib.contextmanager
def fitting_output() -> Iterator[None]:
    """Folds the lines that a ``with`` block prints to the terminal's width."""
    if sys.stdout is None:
        yield
        return
    with contextlib.redirect_stdout(FilteredStream(sys.stdout, lambda text: fit(text, line_width()))):
        yield


def fit(text: str, width: int) -> str:
    r"""Returns text whose lines are folded to ``width`` columns, not counting colours.

    >>> fit("usage: a [-h]\n\nshort", 10)
    'usage: a\n  [-h]\n\nshort'
    """
    return "\n".join(
        line
        if len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= width
        else folded(line, width, further="  " if "usage" in line else "")
        for line in text.split("\n")
    )


def note(text: str) -> None:
    """Prints a remark for the user to standard error, where it does not mix with results."""
    print(f"note: {text}", file=sys.stderr)


def columns(rows: list[tuple[str, str]], width: int, indent: str = "  ", left: int = 0) -> str:
    """Returns names with texts about them, as two columns; texts that are too long continue below themselves.

    ``left`` is the least width of the column of names.

    >>> print(columns([("run", "run a study"), ("show", "the runs")], 16))
      run   run a
            study
      show  the runs
    """
    left = max([left, *(len(name) for name, _ in rows)])
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
