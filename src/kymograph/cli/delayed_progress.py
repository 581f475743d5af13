"""A progress bar for what takes longer than two seconds: nothing before that, and nothing in a pipe or a file."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

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
