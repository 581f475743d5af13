from __future__ import annotations

import io
import time
from typing import Any

import pytest

from kymograph.cli import output as delayed_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("silent", "shown"), [(0.05, True), (60.0, False)])
def test_a_bar_appears_once_it_takes_long_and_says_what_is_done(
    monkeypatch: pytest.MonkeyPatch, silent: float, shown: bool
) -> None:
    """`kymograph figure` used to take many seconds in silence."""
    terminal: Any = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(delayed_progress, "DELAY", silent)
    with delayed_progress.progress(2) as begin:
        begin("clipping: drawing")
        time.sleep(0.4 if shown else 0.0)
        begin("clipping.png")
    assert ("clipping: drawing" in terminal.getvalue()) is shown


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(delayed_progress, "DELAY", 0.0)
    with delayed_progress.progress(None) as begin:
        begin("clipping: drawing")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_closed_standard_error_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with delayed_progress.progress(None) as begin:
        begin("clipping: drawing")
