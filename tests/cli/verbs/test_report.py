from __future__ import annotations

from pathlib import Path

from tests.cli.command import call


def test_a_report_of_one_study_has_its_runs_only(coin: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    for study in ("coin", str(coin), f"{coin}:Coin"):
        page.unlink(missing_ok=True)
        assert call("report", str(coin.parent / "runs"), "--study", study, "-o", str(page), "--title", "Ours") == 0
        text = page.read_text()
        assert "Does it land heads?" in text and "extreme/clip" not in text and "<title>Ours" in text
    assert call("report", str(coin.parent / "runs"), "-o", str(page)) == 0
    assert "extreme/clip" in page.read_text()
