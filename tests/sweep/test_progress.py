"""Progress on a terminal, and in a log."""

from __future__ import annotations

import itertools

import pytest

from kymograph.sweep.progress import Progress


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
