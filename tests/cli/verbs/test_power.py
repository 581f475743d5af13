from __future__ import annotations

import pytest

from tests.cli.command import call


def test_every_claim_is_named_once_and_every_line_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call("power", "clipping", "--n", "6", "10") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    claims = [line for line in lines if line.startswith("  - ")]
    assert claims and len(set(claims)) == len(claims)


def test_the_question_stands_right_above_its_columns(capsys: pytest.CaptureFixture) -> None:
    assert call("power", "clipping", "--n", "10") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith("     n")]
    assert heads and all(lines[index - 1].endswith((" is", " by")) for index in heads)
