from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call


def test_one_study_is_judged_by_name_or_by_code(coin: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(coin.parent / "runs")
    for study in ("coin", str(coin)):
        assert call("judge", runs, "--study", study) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("no claims are registered for these runs")
    assert call("judge", runs, "--study", "cliping") == 1
    assert "has no runs of 'cliping'; did you mean 'clipping'" in capsys.readouterr().err


def test_csv_files_cannot_be_selected_by_study(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("judge", "ours", "theirs", "--csv", "--study", "depth") == 1
    assert "CSV files are judged as they are" in capsys.readouterr().err
