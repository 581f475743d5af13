"""The page of verdicts with published values and provenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from kymograph.lab.judge import judge
from kymograph.lab.reproduce import reproduce
from kymograph.lab.run import SweepOptions, sweep
from kymograph.lab.verdict_page import KNOWN_COPIES, verdict_page
from kymograph.runs.archive import Archive
from kymograph.studies.published import PublishedValue
from tests.studies.bowl import REFERENCE


def test_a_page_has_verdicts_published_values_and_the_heads_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweep("depth", [1, 2], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    run = archive.store.finished[0]
    value = PublishedValue(run.arm, "initial_loss", "loss at the start", "7", 7.0, 7.0, {"steps": 2}, "a remark")
    monkeypatch.setattr(type(done.study), "published", (value,))
    ids = {one.id for one in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    assert text.startswith("# Verdicts on embedded data\n\nWritten by `kymograph reproduce`: ")
    assert f"| {run.arm}, steps 2 | loss at the start | 7 | " in text and "differs: a remark" in text
    assert archive.log.heads and all(head in text for head in archive.log.heads)
    assert not any(remark in text for remark in KNOWN_COPIES.values())
    assert all(line.count("|") >= 3 for line in text.splitlines() if line.startswith("|"))


def test_runs_that_were_not_judged_are_not_on_the_page(tmp_path: Path) -> None:
    done = sweep("depth", [1, 2], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    one = archive.store.finished[0].id
    assert "; 1 run, 1 seed." in verdict_page(judge(archive), archive, [done.study], {one}, "digits", "x")


def test_a_tuned_study_is_reproduced_with_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(SweepOptions(out=tmp_path, engine="serial", quiet=True), 6, study=REFERENCE) == 0
    text = (tmp_path / "verdicts.md").read_text()
    assert f"Written by `kymograph reproduce --study {REFERENCE}`: " in text and "12 runs, 6 seeds" in text
    assert "## Numbers of bowl" in text and "| slow | 6 | " in text
    assert "bowl.tuning" not in text, "tuning runs are not among those that are judged"
