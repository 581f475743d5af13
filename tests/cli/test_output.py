from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kymograph._cli import output
from kymograph._cli.main import main
from kymograph._cli.output import columns, fit, fitting_output, guarded_output, progress, unguarded_output
from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._wording import visible
from tests.records import write_record

ESCAPES = "a\x1b[2J\x1b]0;title\x07\r\u202eb\x9bc\x7f"


def test_no_control_character_is_left_and_all_else_is() -> None:
    assert visible("plain é → 😀\n\ttext") == "plain é → 😀\n\ttext"
    assert visible(ESCAPES) == r"a\x1b[2J\x1b]0;title\x07\x0d\u202eb\x9bc\x7f"
    assert visible("\ud800") == r"\ud800"


def test_what_is_printed_is_guarded_and_the_guard_can_be_lifted(capsys: pytest.CaptureFixture) -> None:
    with guarded_output():
        print(ESCAPES)
        print(ESCAPES, file=sys.stderr)
        with unguarded_output():
            print("\x1b[1mbold")
    print("\x1b after")
    out, err = capsys.readouterr()
    assert out == f"{visible(ESCAPES)}\n\x1b[1mbold\n\x1b after\n" and err == f"{visible(ESCAPES)}\n"


def make(root: Path) -> None:
    """Stores runs whose arm, reason and summary would command a terminal."""
    spec = RunSpec("lab", ESCAPES, 1, {"lr": 0.1, "mode": ESCAPES}, 1)
    series = {"loss": RunSeries(np.arange(2), np.ones(2))}
    write_record(root, spec, RunResult(series, {"é": 1.0, "word": ESCAPES}), {}, 0.1)
    write_failure(root, RunSpec("lab", "other", 1, {"lr": 0.1}, 1), f"ValueError: {ESCAPES}", {}, ESCAPES)


CODES = "".join(f"\\u{ord(letter):04x}" for letter in ESCAPES)
CLAIM = f"""
[[claim]]
name = "{CODES}"
study = "lab"
arm = "{CODES}"
against = 2.0
summary = "é"
direction = "less"
margin = 0.0
"""


def words(verb: str, root: Path) -> list[str]:
    """Returns a command line about the runs in ``root``."""
    claims = root.parent / "claims.toml"
    claims.write_text(CLAIM)
    return {
        "show": ["show", "--dir", str(root)],
        "one run": ["show", "other/s1", "--dir", str(root)],
        "watch": ["watch", str(root), "--once"],
        "judge": ["judge", str(root), "--claims", str(claims)],
        "judge --wide": ["judge", str(root), "--claims", str(claims), "--wide"],
        "export": ["export", str(root), "--arms", ESCAPES, "--output", str(root.parent / "x.json")],
        "error": [ESCAPES],
    }[verb]


@pytest.mark.parametrize("verb", ["show", "one run", "watch", "judge", "judge --wide", "export", "error"])
def test_no_verb_passes_control_characters_on(tmp_path: Path, verb: str, capsys: pytest.CaptureFixture) -> None:
    make(tmp_path / "runs")
    with pytest.raises(SystemExit):
        main(words(verb, tmp_path / "runs"))
    text = "".join(capsys.readouterr())
    assert text.strip() and [letter for letter in text if visible(letter) != letter] == []
    assert "INVALID" in text or not verb.startswith("judge"), text


def test_an_ascii_terminal_gets_ascii(tmp_path: Path) -> None:
    make(tmp_path / "runs")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kymograph", *words("judge", tmp_path / "runs")], capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    text = (done.stdout + done.stderr).decode("ascii")
    assert done.returncode == 0 and "Traceback" not in text and r"\x1b[2J" in text


@pytest.mark.parametrize(
    "letter", ["\u061c", "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "\u2029", "\ue000", "\x9b"]
)
def test_every_invisible_character_is_written_as_its_code(letter: str) -> None:
    assert visible(f"a{letter}b") == f"a{letter.encode('ascii', 'backslashreplace').decode()}b"


def test_words_and_emoji_stay_as_they_are() -> None:
    text = "a\tb\nnaïve \U0001f469\u200d\U0001f52c ‖h‖"
    assert visible(text) == text


def test_what_is_for_a_closed_standard_error_is_not_printed_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with guarded_output():
        print("for people", file=sys.stderr)
        print("for programs")
    assert capsys.readouterr().out == "for programs\n" and sys.stderr is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_take_no_room() -> None:
    coloured = "\x1b[1musage:\x1b[0m one two"
    assert fit(coloured, 14) == coloured
    assert fit(coloured, 10).split() == coloured.split()


def test_what_prints_still_sees_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    with fitting_output():
        assert sys.stdout.isatty()
        print("word " * 20)
    assert max(map(len, terminal.getvalue().splitlines())) <= 40 and terminal.getvalue().split() == ["word"] * 20


def test_a_long_text_continues_below_itself() -> None:
    lines = columns([("a", "one two three"), ("long", "four")], 16).splitlines()
    assert lines == ["  a     one two", "        three", "  long  four"]


@pytest.mark.parametrize(("silent", "shown"), [(0.05, True), (60.0, False)])
def test_a_bar_appears_once_it_takes_long_and_says_what_is_done(
    monkeypatch: pytest.MonkeyPatch, silent: float, shown: bool
) -> None:
    """`kymograph figure` used to take many seconds in silence."""
    terminal: Any = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "DELAY", silent)
    with progress(2) as begin:
        begin("clipping: drawing")
        time.sleep(0.4 if shown else 0.0)
        begin("clipping.png")
    assert ("clipping: drawing" in terminal.getvalue()) is shown


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(output, "DELAY", 0.0)
    with progress(None) as begin:
        begin("clipping: drawing")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_closed_standard_error_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with progress(None) as begin:
        begin("clipping: drawing")
