"""Progress: a bar on a terminal or in a notebook, a plain line per finished stack elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kymograph.wording import visible

if TYPE_CHECKING:
    from kymograph.sweep.notebook_bar import NotebookBar


class Progress:
    """Follows a sweep of ``runs`` runs and ``steps`` steps; use it as a context manager."""

    def __init__(self, title: str, runs: int, steps: int, quiet: bool = False) -> None:
        self._title, self._runs, self._steps, self._quiet = title, runs, steps, quiet
        self._done = self._failed = 0
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._notebook: NotebookBar | None = None

    def __enter__(self) -> Progress:
        if self._quiet or self._steps == 0:
            return self
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter:  # rich would ask for ipywidgets, which a stock notebook lacks
            from kymograph.sweep.notebook_bar import NotebookBar

            self._notebook = NotebookBar(self._title, self._steps, f"0/{self._runs} runs")
            self._notebook.start()
        elif console.is_terminal:
            from rich import progress

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.TaskProgressColumn(),
                progress.TextColumn("{task.fields[runs]}"),
                progress.TimeRemainingColumn(elapsed_when_finished=True),
                progress.TextColumn("{task.fields[doing]}", markup=False),
                console=console,
            )
            runs = f"0/{self._runs} runs"
            self._task = self._bar.add_task(visible(self._title), total=self._steps, runs=runs, doing="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._notebook is not None:
            self._notebook.stop()

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)
        elif self._notebook is not None:
            self._notebook.advance(steps)

    def say(self, text: str) -> None:
        """Shows the current run's progress in words, next to the bar."""
        if self._bar is not None:
            self._bar.update(self._task, doing=visible(text))
        elif self._notebook is not None:
            self._notebook.update(doing=text)

    def ended(self, finished: int, failed: int) -> None:
        """Notes that a stack ended with so many runs finished and failed."""
        self._done += finished
        self._failed += failed
        text = f"{self._done}/{self._runs} runs" + (f", {self._failed} failed" if self._failed else "")
        if self._bar is not None:
            self._bar.update(self._task, runs=text)
        elif self._notebook is not None:
            self._notebook.update(runs=text)
        elif not self._quiet:
            print(
                f"{self._title}: {text}, {time.monotonic() - self._started:.1f} s",
                file=sys.stderr,
                flush=True,
            )
