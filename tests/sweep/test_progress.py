"""Progress on a terminal, in a log and in a notebook."""

from __future__ import annotations

import itertools
import sys
import types
from typing import Any

import pytest

from kymograph._sweep import progress as notebook_bar
from kymograph._sweep.progress import NotebookBar, Progress


def test_a_quiet_sweep_says_nothing(capsys: pytest.CaptureFixture) -> None:
    with Progress("study", runs=2, steps=100, quiet=True) as progress:
        progress.tick(100)
        progress.say("loss 1")
        progress.ended(2, 0)
    assert capsys.readouterr().err == ""


def test_a_log_has_few_lines_with_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """There used to be a line per run, and none said how long it would take."""
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Progress("study", runs=400, steps=800) as progress:
        for _ in range(399):
            progress.tick(2)
            progress.ended(1, 0)
        progress.tick(2)
        progress.ended(0, 1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < 20 and lines[0] == "study: 2/400 runs, 2 s, about 7 min left"
    assert lines[-1] == "study: 399/400 runs, 1 failed, 7 min"


def test_it_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Progress("study", runs=4, steps=100) as progress:
        progress.tick(100)
        progress.say("||h_L|| 5")
        progress.ended(4, 0)
    assert "4/4 runs" in capsys.readouterr().err


class Screen:
    """Remembers what a notebook shows."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def display(self, shown: Any, display_id: bool = False) -> Screen:
        assert display_id
        self.update(shown)
        return self

    def update(self, shown: Any) -> None:
        self.pages.append(shown._repr_html_())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    module = types.ModuleType("IPython.display")
    module.display = screen.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return screen


def test_it_is_shown_changed_in_place_and_left_complete(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_bar, "EVERY", 0.0)
    bar = NotebookBar("a <b>", 10, "0/2 runs")
    bar.advance(5)
    bar.update(doing="epoch 3")
    bar.update(runs="2/2 runs")
    bar.advance(5)
    bar.stop()
    assert len(screen.pages) == 6
    assert "a &lt;b&gt;: 50%, 0/2 runs" in screen.pages[1] and "epoch 3" in screen.pages[2]
    assert "value='10' max='10'" in screen.pages[-1] and "100%, 2/2 runs" in screen.pages[-1]
    assert "epoch 3" not in screen.pages[-1]


def test_it_changes_a_few_times_a_second_only(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_bar, "EVERY", 1000.0)
    bar = NotebookBar("quick", 1000, "0/1 runs")
    for _ in range(1000):
        bar.advance(1)
    bar.stop()
    assert len(screen.pages) == 2
