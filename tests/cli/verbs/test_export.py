from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kymograph.runs.store import Store
from tests.cli.command import call


@pytest.mark.parametrize("named_by", ["name", "file", "file:name"])
def test_runs_are_exported_by_the_name_or_the_code_of_their_study(coin: Path, tmp_path: Path, named_by: str) -> None:
    reference = {"name": "coin", "file": str(coin), "file:name": f"{coin}:Coin"}[named_by]
    output = tmp_path / "runs.json"
    words = ("export", str(coin.parent / "runs"), "--to", "json", "--output", str(output))
    assert call(*words, "--study", reference) == 0
    assert [run["study"] for run in json.loads(output.read_text())["runs"]] == ["coin", "coin"]


def test_a_stored_name_imports_no_code(coin: Path, tmp_path: Path) -> None:
    before = set(sys.modules)
    assert call("export", str(coin.parent / "runs"), "--to", "csv", "--output", str(tmp_path / "x.csv")) == 0
    words = ("--study", "coin", "-o", str(tmp_path / "x.html"))
    assert call("report", str(coin.parent / "runs"), *words) == 0
    assert not [name for name in set(sys.modules) - before if "coin" in name]


def test_export_to_the_scripts_layout(depth_store: Store, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    assert call("export", str(depth_store.root), "--to", "script", "--output", str(output), "--seed", "123") == 0
    assert "res_mlp" in json.loads(output.read_text())


def test_the_scripts_layout_needs_the_studys_code(coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("export", str(coin.parent / "runs"), "--to", "script", "--seed", "1", "--output", str(tmp_path / "x.json"))
    for study, message in (("coin", "name its code"), (str(coin), "wrote no file"), ("cone", "did you mean 'coin'")):
        assert call(*words, "--study", study) == 1
        assert message in capsys.readouterr().err
    assert call(*words) == 1 and "has one study; choose it with --study" in capsys.readouterr().err


def test_standard_output_is_refused(
    coin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("export", str(coin.parent / "runs"), "--study", "coin", "--to", "csv", "--output", "-") == 2
    assert "writes files, not standard output" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
