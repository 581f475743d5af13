"""A progress bar for any notebook: it needs no widgets, and so gives no warning that they are missing."""

from __future__ import annotations

import html
import time
from typing import Any

EVERY = 0.2
"""The least number of seconds between two updates of the display."""


class NotebookBar:
    """Steps done and in total, with a short text, shown below the cell and updated in place."""

    def __init__(self, title: str, total: int, runs: str) -> None:
        self._title, self._total, self._runs = title, total, runs
        self._steps = 0
        self._doing = ""
        self._started = self._shown = time.monotonic()
        self._handle: Any = None

    def start(self) -> None:
        """Shows the empty bar."""
        from IPython.display import display

        self._handle = display(self, display_id=True)

    def advance(self, steps: int) -> None:
        """Notes that ``steps`` more steps are done."""
        self._steps += steps
        self._show()

    def update(self, *, runs: str | None = None, doing: str | None = None) -> None:
        """Changes the text next to the bar."""
        self._runs = self._runs if runs is None else runs
        self._doing = self._doing if doing is None else doing
        self._show()

    def stop(self) -> None:
        """Shows the final state, which stays."""
        self._doing = ""
        self._show(at_once=True)

    def _show(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._handle is not None and (at_once or now - self._shown >= EVERY):
            self._shown = now
            self._handle.update(self)

    def __repr__(self) -> str:
        seconds = time.monotonic() - self._started
        words = [f"{min(self._steps / max(self._total, 1), 1):.0%}", self._runs, f"{seconds:.0f} s", self._doing]
        return f"{self._title}: {', '.join(filter(None, words))}"

    def _repr_html_(self) -> str:
        bar = f"<progress value='{self._steps}' max='{max(self._total, 1)}'></progress>"
        return f"<div>{bar} <code>{html.escape(repr(self))}</code></div>"
