from __future__ import annotations

from pathlib import Path

import pytest

from kymograph_studies.clipping import Clipping
from tests.cli.command import QUICK, call


def test_figures_of_a_user_defined_study_are_drawn_when_its_code_is_named(coin: Path, tmp_path: Path) -> None:
    runs, out = str(coin.parent / "runs"), str(tmp_path)
    assert call("figure", "coin-tosses", "--from", runs, "--study", "coin", "--out", out) == 1
    assert call("figure", "coin-tosses", "--from", runs, "--study", str(coin), "--out", out) == 0
    assert (tmp_path / "coin-tosses.png").exists()


def test_where_chooses_among_settings(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    for lr in ("0.1", "0.2"):
        call("run", "clipping", "--seeds", "1", "--arms", "extreme/*clip", "--out", runs, "--lr", lr, *QUICK)
    assert call("figure", "clipping", "--from", runs) == 1
    assert call("figure", "clipping", "--from", runs, "--where", "lr=0.2") == 0


def test_the_list_is_the_same_with_and_without_the_parser(capsys: pytest.CaptureFixture) -> None:
    assert call("figure", "--list") == 0
    fast = capsys.readouterr().out
    assert call("figure", "--list", "--style", "paper") == 0
    assert capsys.readouterr().out == fast and "depth-kymograph" in fast


@pytest.mark.slow
def test_superseded_runs_are_drawn_if_their_version_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    words = ("run", "clipping", "--arms", "extreme/*clip", "--out", str(tmp_path), *QUICK, "--seeds")
    monkeypatch.setattr(Clipping, "version", Clipping.version - 1)
    assert call(*words, "1", "2") == 0
    old = Clipping.version
    monkeypatch.undo()
    assert call(*words, "1") == 0
    capsys.readouterr()
    assert call("figure", "clipping", "--from", str(tmp_path)) == 0
    assert "4 superseded runs, of older versions" in capsys.readouterr().err
    assert call("figure", "clipping", "--from", str(tmp_path), "--where", f"version={old}") == 0
    assert not capsys.readouterr().err


def test_an_empty_from_is_one_sentence(capsys: pytest.CaptureFixture) -> None:
    assert call("figure", "clipping", "--from") == 2
    assert "--from needs a directory of runs" in capsys.readouterr().err


def test_a_link_called_figures_that_leads_elsewhere_is_not_followed(
    coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    call("run", str(coin), "--seeds", "1", "--out", str(runs), "--engine", "serial", "--quiet")
    (runs / "figures").symlink_to(elsewhere)
    words = ("figure", "coin-tosses", "--from", str(runs), "--study", str(coin))
    assert call(*words) == 1
    assert f"{runs / 'figures'} is a link that leads outside of {runs}, which is not" in capsys.readouterr().err
    assert not any(elsewhere.iterdir())
    assert call(*words, "--out", str(runs / "figures")) == 0, "who names it wants it followed"
