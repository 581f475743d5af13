from __future__ import annotations

from pathlib import Path

from tests.cli.command import call
from tests.pictures.report.pages import make_runs


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
