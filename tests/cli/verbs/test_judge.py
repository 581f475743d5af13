from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import call


def test_one_study_is_judged_by_name_or_by_code(coin: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(coin.parent / "runs")
    for study in ("coin", str(coin)):
        assert call("judge", runs, "--study", study) == 0
        assert capsys.readouterr().err.splitlines()[-1].startswith("no claims are registered for these runs")
    assert call("judge", runs, "--study", "cliping") == 1
    assert "has no runs of 'cliping'; did you mean 'clipping'" in capsys.readouterr().err


def test_csv_files_cannot_be_selected_by_study(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("judge", "ours", "theirs", "--csv", "--study", "depth") == 2
    assert "choose among stored runs, not CSV files" in capsys.readouterr().err


def test_a_dash_prints_nothing_but_the_format_asked_for(
    coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """`--json -` used to write a file of that name."""
    runs = str(coin.parent / "runs")
    assert call("judge", runs, "--study", "coin", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == []
    for arm, value in (("ours", 1.0), ("theirs", 2.0)):
        (tmp_path / arm).mkdir()
        rows = "".join(f"{seed},0,{value + seed / 100}\n" for seed in range(10))
        (tmp_path / arm / "loss.csv").write_text("seed,step,value\n" + rows)
    words = ("judge", str(tmp_path / "ours"), str(tmp_path / "theirs"), "--csv", "--direction", "less")
    assert call(*words, "--json", "-", "--markdown", str(tmp_path / "table.md")) == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out)
    assert row["claim"] and captured.err.strip().endswith("table.md")
    assert call(*words, "--markdown", "-") == 0
    assert capsys.readouterr().out == (tmp_path / "table.md").read_text()
    assert call(*words, "--markdown", "-", "--json", "-") == 2
    assert "choose one" in capsys.readouterr().err


def test_claims_that_were_lost_with_the_log_are_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A damaged registration used to be answered with "no claims are registered", and exit code 0."""
    path = tmp_path / "bowls.py"
    path.write_text("from dataclasses import replace\n\nfrom tests.studies.bowl import Bowl as Base\n\n\n"
                    "class Bowls(Base):\n    name = 'bowls'\n    tune = None\n")  # fmt: skip
    runs = tmp_path / "runs"
    assert call("run", str(path), "--seeds", "1", "2", "--out", str(runs), "--engine", "serial", "--quiet") == 0
    (segment,) = (runs / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"margin"', b'"mangin"', 1))
    capsys.readouterr()
    assert call("judge", str(runs)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "line 1 was edited" in said and "from a copy" in said
