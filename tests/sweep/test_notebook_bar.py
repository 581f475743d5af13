"""The progress bar of a notebook."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from kymograph.sweep import progress as notebook_bar
from kymograph.sweep.progress import NotebookBar


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
