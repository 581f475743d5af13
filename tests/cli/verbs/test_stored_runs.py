"""The verbs that start from stored runs, on runs of a user-defined study."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kymograph.runs.store import Store
from tests.cli.command import QUICK, call, write_coin


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a user-defined study; two runs of it and one of `clipping` are in the directory `runs` beside it."""
    path = write_coin(tmp_path_factory.mktemp("coin"), "coin_stored.py")
    runs = str(path.parent / "runs")
    assert call("run", str(path), "--seeds", "1", "2", "--out", runs, "--engine", "serial", "--quiet") == 0
    assert call("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", "--out", runs, *QUICK) == 0
    return path


@pytest.mark.parametrize("named_by", ["name", "file", "file:name"])
def test_runs_are_exported_by_the_name_or_the_code_of_their_study(study: Path, tmp_path: Path, named_by: str) -> None:
    reference = {"name": "coin", "file": str(study), "file:name": f"{study}:Coin"}[named_by]
    output = tmp_path / "runs.json"
    words = ("export", str(study.parent / "runs"), "--to", "json", "--output", str(output))
    assert call(*words, "--study", reference) == 0
    assert [run["study"] for run in json.loads(output.read_text())["runs"]] == ["coin", "coin"]


def test_a_stored_name_imports_no_code(study: Path, tmp_path: Path) -> None:
    before = set(sys.modules)
    assert call("export", str(study.parent / "runs"), "--to", "csv", "--output", str(tmp_path / "x.csv")) == 0
    words = ("--study", "coin", "-o", str(tmp_path / "x.html"))
    assert call("report", str(study.parent / "runs"), *words) == 0
    assert not [name for name in set(sys.modules) - before if "coin" in name]


def test_figures_of_a_user_defined_study_are_drawn_when_its_code_is_named(study: Path, tmp_path: Path) -> None:
    runs, out = str(study.parent / "runs"), str(tmp_path)
    assert call("figure", "coin-tosses", "--from", runs, "--study", "coin", "--out", out) == 1
    assert call("figure", "coin-tosses", "--from", runs, "--study", str(study), "--out", out) == 0
    assert (tmp_path / "coin-tosses.png").exists()


def test_report_judge_and_watch_take_a_user_defined_study(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    runs, page = str(study.parent / "runs"), tmp_path / "report.html"
    assert call("report", runs, "--study", str(study), "-o", str(page)) == 0
    text = page.read_text()
    assert "Does it land heads?" in text and "extreme/clip" not in text
    assert call("judge", runs, "--study", str(study)) == 0
    capsys.readouterr()
    assert call("watch", runs, "--once", "--study", str(study)) == 0
    text = capsys.readouterr().out
    assert "coin" in text and "clipping" not in text
    assert call("watch", runs, "--once", "--study", "cone") == 1
    assert "has no runs of 'cone'" in capsys.readouterr().err


def test_where_chooses_among_settings(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    for lr in ("0.1", "0.2"):
        call("run", "clipping", "--seeds", "1", "--arms", "extreme/*clip", "--out", runs, "--lr", lr, *QUICK)
    assert call("figure", "clipping", "--from", runs) == 1
    assert call("figure", "clipping", "--from", runs, "--where", "lr=0.2") == 0


def test_export_to_the_scripts_layout(depth_store: Store, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    assert call("export", str(depth_store.root), "--to", "script", "--output", str(output), "--seed", "123") == 0
    assert "res_mlp" in json.loads(output.read_text())
