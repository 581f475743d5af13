from __future__ import annotations

import json
from pathlib import Path

import pytest

from kymograph import reproduce as module
from kymograph.progress import Progress
from kymograph.runs.store import Store
from kymograph.studies.study import Study, load_study
from kymograph.studies.table import headline_table
from tests.conftest import QUICK_CLIPPING, QUICK_DEPTH

QUICK = {"clipping": QUICK_CLIPPING, "depth": QUICK_DEPTH, "snapshot": {"epochs": 1, "width": 16, "depth": 2},
         "calibration": {"epochs": 1, "width": 16, "depth": 2, "draws": 19}}  # fmt: skip


@pytest.mark.slow
def test_everything_is_run_drawn_and_told_and_the_second_time_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    plain = Study.specs

    def small(self: Study, seeds, arms=None, fields=None):
        return plain(self, seeds, arms, {**QUICK[self.name], **(fields or {})})

    monkeypatch.setattr(Study, "specs", small)
    assert module.reproduce(str(tmp_path), 6, "serial", None, quick=True) == 0
    out = capsys.readouterr().out
    for word in ("clipping, default arms", "learnable/*", "task=orthogonal", "snapshot, default arms", "residual/zero",
                 "origin", "INVALID", "report: "):  # fmt: skip
        assert word in out
    rows = json.loads((tmp_path / "verdicts.json").read_text())
    assert len(rows) >= 14 and all(row["n"] == 6 or row["verdict"] == "INVALID" for row in rows)
    rare = [row for row in rows if row["claim"].startswith("rare accuracy") and row["setup"] == "script"]
    assert rare[0]["verdict"] == "INVALID" and "learned" in rare[0]["reason"]
    assert {row["registration"] for row in rows} == {"registered"}
    assert (tmp_path / "report.html").stat().st_size > 100_000
    figures = {path.name for path in (tmp_path / "figures").rglob("*.png")}
    assert {"clipping.png", "depth-kymograph.png", "figure_snapshot_resmlp.png"} <= figures
    assert module.reproduce(str(tmp_path), 6, "serial", None, quick=True) == 0
    again = capsys.readouterr().out
    assert "runs computed" in again and " 0 runs computed" in again and "were up to date" in again
    assert all(line.split(": ")[1].startswith("0 runs") for line in again.splitlines() if "runs computed" in line)


def test_a_table_says_how_many_it_averaged(depth_store: Store) -> None:
    table = headline_table(load_study("depth"), depth_store)
    lines = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "missing" in lines["residual/zero"] and lines["plain"].split()[1] == "3"
    assert "[" in lines["plain"], "an interval over seeds"


@pytest.mark.parametrize("quiet", [True, False])
def test_progress_is_a_plain_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture, quiet: bool) -> None:
    with Progress("study", runs=4, steps=100, quiet=quiet) as progress:
        progress.tick(50)
        progress.say("loss 1")
        progress.ended(2, 1)
    error = capsys.readouterr().err
    assert ("study: 2/4 runs, 1 failed" in error) != quiet


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Progress("study", runs=4, steps=100) as progress:
        progress.tick(100)
        progress.say("||h_L|| 5")
        progress.ended(4, 0)
    assert "4/4 runs" in capsys.readouterr().err
