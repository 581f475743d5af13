from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call


@pytest.mark.parametrize("named_by", ["name", "file"])
def test_one_study_is_watched_by_name_or_by_code(coin: Path, capsys: pytest.CaptureFixture, named_by: str) -> None:
    runs = str(coin.parent / "runs")
    assert call("watch", runs, "--once") == 0
    assert "clipping" in capsys.readouterr().out
    assert call("watch", runs, "--once", "--study", "coin" if named_by == "name" else str(coin)) == 0
    text = capsys.readouterr().out
    assert "coin" in text and "clipping" not in text


def test_a_study_without_runs_is_named(coin: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("watch", str(coin.parent / "runs"), "--once", "--study", "cone") == 1
    assert "has no runs of 'cone'" in capsys.readouterr().err
