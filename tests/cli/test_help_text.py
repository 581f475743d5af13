from __future__ import annotations

import io
import sys

import pytest

from kymograph.cli.output import columns, fit, fitting_output


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
