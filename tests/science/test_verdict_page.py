"""The page of verdicts with published values and provenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from kymograph.claims.judge import judge
from kymograph.experiments.running import sweep
from kymograph.experiments.stages import SweepOptions
from kymograph.runs.archive import Archive
from kymograph_studies.data import DATA_SETS
from kymograph_studies.published import PublishedValue, verdict_page
from kymograph_studies.reproduce import reproduce
from tests.studies.bowl import REFERENCE


def test_a_page_has_verdicts_published_values_and_the_heads_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweep("depth", [1, 2], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    run = archive.store.finished[0]
    value = PublishedValue(run.arm, "initial_loss", "loss at the start", "7", 7.0, 7.0, {"steps": 2}, "a remark")
    monkeypatch.setattr(type(done.study), "published", {"A and B (2026)": (value,)})
    ids = {one.id for one in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    assert text.startswith("# Verdicts on embedded data\n\nWritten by `kymograph reproduce`: ")
    assert f"| {run.arm}, steps 2 | loss at the start | 7 | " in text and "differs: a remark" in text
    assert archive.log.heads and all(head in text for head in archive.log.heads)
    assert "This is a copy of" not in text
    assert all(line.count("|") >= 3 for line in text.splitlines() if line.startswith("|"))


def test_published_values_are_printed_with_their_own_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = sweep("depth", [1, 2], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    first, second = archive.store.finished[0].arm, archive.store.finished[-1].arm
    published = {
        source: (PublishedValue(arm, "initial_loss", "loss at the start", value, 0.0, 0.0),)
        for source, arm, value in [("A and B (2026)", first, "7.1"), ("C (2027)", second, "7.2")]
    }
    published["D (2028)"] = (PublishedValue(first, "no such number", "number", "7.3", 0.0, 0.0),)
    monkeypatch.setattr(type(done.study), "published", published)
    ids = {one.id for one in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    _, one, other = text.partition("## Provenance")[0].split("Published: ")
    assert one.startswith("A and B (2026). Values agree if ") and "7.1" in one and "7.2" not in one
    assert other.startswith("C (2027). Values agree if ") and "7.2" in other and "7.1" not in other
    assert "Hao" not in text


def test_a_published_value_that_some_seeds_lack_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = sweep("depth", [1, 2, 3], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    first = archive.store.finished[0]
    first.summary["initial_loss"] = None
    value = PublishedValue(first.arm, "initial_loss", "loss at the start", "any", 0.0, 1e9)
    monkeypatch.setattr(type(done.study), "published", {"A (2026)": (value,)})
    ids = {one.id for one in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    assert "| 2 of 3 | differs: not explained |" in text


def test_a_copy_of_a_data_set_that_is_known_to_differ_is_pointed_out(tmp_path: Path) -> None:
    done = sweep("depth", [1], SweepOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Archive.open(tmp_path).checked()
    (digest, remark), *_ = DATA_SETS.part("cifar10").properties["copies"].items()
    archive.store.finished[0].summary["data_digest"] = digest
    ids = {one.id for one in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "cifar10", "kymograph reproduce")
    assert f"## Provenance\n\n{remark}\n\n" in text


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
