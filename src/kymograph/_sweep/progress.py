"""Progress of a sweep: who follows it, a bar in a terminal or notebook, occasional plain lines elsewhere."""

from __future__ import annotations

import html
import sys
import time
from types import TracebackType
from typing import Any

from kymograph._wording import format_duration, visible

EVERY = 0.2
"""The least number of seconds between two updates of a notebook's display."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between two lines in a log; they double with every line, so that a long sweep does not fill the log."""


class Follower:
    """Receives the progress of training and ignores it; subclasses show it or pass it on."""

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""

    def say(self, text: str) -> None:
        """Notes the current run's progress in words."""


class Progress(Follower):
    """Shows the progress of a sweep of ``runs`` runs and ``steps`` steps; use it as a context manager."""

    def __init__(self, title: str, runs: int, steps: int, quiet: bool = False) -> None:
        self._title, self._runs, self._steps, self._quiet = title, runs, steps, quiet
        self._done = self._failed = self._ticks = 0
        self._started = self._printed = time.monotonic()
        self._pause = FIRST_PAUSE
        self._bar: TerminalBar | NotebookBar | None = None

    def __enter__(self) -> Progress:
        if self._quiet or self._steps == 0:
            return self
        from rich.console import Console

        console = Console(stderr=True)
        runs = f"0/{self._runs} runs"
        if console.is_jupyter:  # rich would ask for ipywidgets, which a stock notebook lacks
            self._bar = NotebookBar(self._title, self._steps, runs)
        elif console.is_terminal:
            self._bar = TerminalBar(self._title, self._steps, runs, console)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tick(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self._ticks += steps
        if self._bar is not None:
            self._bar.advance(steps)

    def say(self, text: str) -> None:
        """Shows the current run's progress in words, next to the bar."""
        if self._bar is not None:
            self._bar.update(doing=text)

    def ended(self, finished: int, failed: int) -> None:
        """Notes that a stack ended, with ``finished`` and ``failed`` runs."""
        self._done += finished
        self._failed += failed
        text = f"{self._done}/{self._runs} runs" + (f", {self._failed} failed" if self._failed else "")
        if self._bar is not None:
            self._bar.update(runs=text)
        elif not self._quiet:
            self._print(text)

    def _print(self, text: str) -> None:
        """Prints a line with the elapsed and remaining time; the last one always, others at growing intervals."""
        now = time.monotonic()
        last = self._done + self._failed >= self._runs
        if not last and now - self._printed < self._pause:
            return
        self._printed, self._pause = now, min(2 * self._pause, LONGEST_PAUSE)
        took = now - self._started
        steps = min(max(self._ticks, 1), self._steps)
        left = "" if last else f", about {format_duration(took * (self._steps - steps) / steps)} left"
        print(f"{self._title}: {text}, {format_duration(took)}{left}", file=sys.stderr, flush=True)


class TerminalBar:
    """A bar of rich's, with two short texts next to it: how many runs are done, and what the current one is doing."""

    def __init__(self, title: str, total: int, runs: str, console: Any) -> None:
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
        self._task = self._bar.add_task(visible(title), total=total, runs=runs, doing="")
        self._bar.start()

    def advance(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self._bar.advance(self._task, steps)

    def update(self, **texts: str) -> None:
        """Changes the texts ``runs`` or ``doing``."""
        fields: dict[str, Any] = {name: visible(text) for name, text in texts.items()}
        self._bar.update(self._task, **fields)

    def stop(self) -> None:
        """Ends the display; its final state stays."""
        self._bar.stop()


class NotebookBar:
    """The same bar below a notebook's cell, updated in place."""

    def __init__(self, title: str, total: int, runs: str) -> None:
        from IPython.display import display

        self._title, self._total, self._texts = title, total, {"runs": runs, "doing": ""}
        self._steps = 0
        self._started = self._shown = time.monotonic()
        self._handle: Any = display(self, display_id=True)  # type: ignore[no-untyped-call]  # IPython has no types

    def advance(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self._steps += steps
        self._show()

    def update(self, **texts: str) -> None:
        """Changes the texts ``runs`` or ``doing``."""
        self._texts |= texts
        self._show()

    def stop(self) -> None:
        """Shows the final state, which stays."""
        self._texts["doing"] = ""
        self._show(at_once=True)

    def _show(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._handle is not None and (at_once or now - self._shown >= EVERY):
            self._shown = now
            self._handle.update(self)

    def __repr__(self) -> str:
        done, seconds = min(self._steps / max(self._total, 1), 1), time.monotonic() - self._started
        words = [f"{done:.0%}", self._texts["runs"], f"{seconds:.0f} s", self._texts["doing"]]
        return f"{self._title}: {', '.join(filter(None, words))}"

    def _repr_html_(self) -> str:
        bar = f"<progress value='{self._steps}' max='{max(self._total, 1)}'></progress>"
        return f"<div>{bar} <code>{html.escape(repr(self))}</code></div>"
