from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._pictures.canvas import sheet
from kymograph._runs.store import Store
from tests.cli.command import QUICK, call
from tests.pictures.report.pages import make_runs


def test_figures_of_a_user_defined_study_are_drawn_when_its_code_is_named(coin: Path, tmp_path: Path) -> None:
    runs, out = str(coin.parent / "runs"), str(tmp_path)
    assert call("figure", "coin-tosses", "--dir", runs, "--study", "coin", "-o", out) == 1
    assert call("figure", "coin-tosses", "--dir", runs, "--study", str(coin), "-o", out) == 0
    assert (tmp_path / "coin-tosses.png").exists()


@pytest.mark.science
def test_where_chooses_among_settings(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    for lr in ("0.1", "0.2"):
        call("run", "clipping", "--seeds", "1", "--arms", "extreme/*clip", "--dir", runs, "--lr", lr, *QUICK)
    assert call("figure", "clipping", "--dir", runs) == 1
    assert call("figure", "clipping", "--dir", runs, "--where", "lr=0.2") == 0


@pytest.mark.science
def test_the_list_is_the_same_with_and_without_the_parser(capsys: pytest.CaptureFixture) -> None:
    assert call("figure", "--list") == 0
    fast = capsys.readouterr().out
    assert call("figure", "--list", "--style", "paper") == 0
    assert capsys.readouterr().out == fast and "depth-kymograph" in fast


@pytest.mark.slow
def test_superseded_runs_are_drawn_if_their_version_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    words = ("run", "clipping", "--arms", "extreme/*clip", "--dir", str(tmp_path), *QUICK, "--seeds")
    from kymograph_studies.clipping import Clipping

    monkeypatch.setattr(Clipping, "version", Clipping.version - 1)
    assert call(*words, "1", "2") == 0
    old = Clipping.version
    monkeypatch.undo()
    assert call(*words, "1") == 0
    capsys.readouterr()
    assert call("figure", "clipping", "--dir", str(tmp_path)) == 0
    assert "4 superseded runs, of older versions" in capsys.readouterr().err
    assert call("figure", "clipping", "--dir", str(tmp_path), "--where", f"version={old}") == 0
    assert not capsys.readouterr().err


def test_an_empty_dir_is_one_sentence(capsys: pytest.CaptureFixture) -> None:
    assert call("figure", "clipping", "--dir") == 2
    assert "--dir needs a directory of runs" in capsys.readouterr().err


def test_a_link_called_figures_that_leads_elsewhere_is_not_followed(
    coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    elsewhere.mkdir()
    call("run", str(coin), "--seeds", "1", "--dir", str(runs), "--engine", "serial", "--quiet")
    (runs / "figures").symlink_to(elsewhere)
    words = ("figure", "coin-tosses", "--dir", str(runs), "--study", str(coin))
    assert call(*words) == 1
    assert f"{runs / 'figures'} is a link that leads outside of {runs}, which is not" in capsys.readouterr().err
    assert not any(elsewhere.iterdir())
    assert call(*words, "-o", str(runs / "figures")) == 0, "who names it wants it followed"


def test_a_report_of_one_study_has_its_runs_only(coin: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    for study in ("coin", str(coin), f"{coin}:Coin"):
        page.unlink(missing_ok=True)
        assert call("report", str(coin.parent / "runs"), "--study", study, "-o", str(page), "--title", "Ours") == 0
        text = page.read_text()
        assert "Does it land heads?" in text and "extreme/clip" not in text and "<title>Ours" in text
    assert call("report", str(coin.parent / "runs"), "-o", str(page)) == 0
    assert "extreme/clip" in page.read_text()


def test_a_report_shows_the_verdicts_on_your_own_claims(tmp_path: Path) -> None:
    """After `judge runs --claims claims.toml`, the report used to say that no claim was judged."""
    make_runs(tmp_path / "runs", seeds=range(10))
    claims, page = tmp_path / "claims.toml", tmp_path / "report.html"
    claims.write_text(
        '[[claim]]\nname = "wild ends higher"\nstudy = "own"\narm = "wild"\nagainst = "calm"\n'
        'summary = "final_loss"\ndirection = "greater"\nmargin = 0.1\n'
    )
    assert call("report", str(tmp_path / "runs"), "-o", str(page)) == 0
    assert "No claims were judged on these runs" in page.read_text()
    assert call("report", str(tmp_path / "runs"), "--claims", str(claims), "-o", str(page)) == 0
    text = page.read_text()
    assert "1 claim judged" in text and "wild ends higher" in text and "post hoc" in text
    assert call("report", str(tmp_path / "runs"), "--claims", str(tmp_path / "none.toml"), "-o", str(page)) == 1


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


def test_the_scripts_layout_is_for_their_studies(coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("export", str(coin.parent / "runs"), "--to", "script", "--seed", "1", "--output", str(tmp_path / "x.json"))
    none = "no script behind coin wrote a file"
    for study, message in (("coin", none), (str(coin), none), ("cone", "did you mean 'coin'")):
        assert call(*words, "--study", study) == 1
        assert message in capsys.readouterr().err
    assert call(*words) == 1 and "has one study; choose it with --study" in capsys.readouterr().err


def test_standard_output_is_refused(
    coin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("export", str(coin.parent / "runs"), "--study", "coin", "--to", "csv", "--output", "-") == 2
    assert "writes files, not standard output" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_drawn_does_not_stop_the_others(
    coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """One name that was misspelt used to leave all of them undrawn."""
    words = ("--dir", str(coin.parent / "runs"), "--study", str(coin), "-o", str(tmp_path / "new" / "figures"))
    capsys.readouterr()
    assert call("figure", "coin-curves", "coin-toses", "coin-tosses", *words) == 1
    captured = capsys.readouterr()
    assert [line.split("figures/")[1].split(".")[0] for line in captured.out.splitlines()] == [
        "coin-curves",
        "coin-tosses",
    ]
    assert (
        captured.err == "not drawn: coin-toses: these runs have no figure 'coin-toses'; did you mean 'coin-tosses'?\n"
    )
    assert (tmp_path / "new" / "figures" / "coin-tosses.png").exists()
    assert call("figure", "coin-toses", *words) == 1
    assert capsys.readouterr().err.startswith("kymograph: these runs have no figure 'coin-toses'")


def test_many_figures_that_share_a_reason_are_counted(
    coin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Nineteen names used to come before the reason."""
    names = [f"figure-{number}" for number in range(19)]
    monkeypatch.setattr("kymograph._pictures.figures.figure_names", lambda store, studies: ["coin-tosses", *names])

    def drawn(name: str, *_: object, **__: object) -> object:
        if name in names:
            raise KymographError("they need another arm")
        return sheet((2.0, 2.0), 1, 1)

    monkeypatch.setattr("kymograph._pictures.figures.figure", drawn)
    words = ("--dir", str(coin.parent / "runs"), "--study", str(coin), "-o", str(tmp_path))
    capsys.readouterr()
    assert call("figure", *words) == 0, "not all figures fit all runs"
    said = capsys.readouterr().err
    assert said == "not drawn: figure-0, figure-1, figure-2, figure-3, figure-4 and 14 more: they need another arm\n"


@pytest.mark.parametrize("to", ["json", "csv", "csv-summary"])
def test_an_export_makes_the_directories_that_it_needs(coin: Path, tmp_path: Path, to: str) -> None:
    path = tmp_path / "new" / "directory" / "runs.txt"
    assert call("export", str(coin.parent / "runs"), "--study", "coin", "--to", to, "-o", str(path)) == 0
    assert path.is_file()
