"""The page of verdicts: the numbers of tuned arms, published values next to ours, and where the runs come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from kymograph._claims.judge import judge
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._rounding import estimate_text
from kymograph._runs.directory import Directory
from kymograph._runs.store import Store
from kymograph._studies.study import Study
from kymograph_studies.data import DATA_SETS
from kymograph_studies.published import PublishedValue
from kymograph_studies.reproduce import reproduce
from kymograph_studies.verdict_page import _sibling, arm_numbers, verdict_page
from tests.studies.bowl import REFERENCE


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Study, Store]:
    done = run_sweep(REFERENCE, [1, 2, 3, 4], ComputeOptions(out=tmp_path, engine="serial", quiet=True),
                 arms=["slow", "fast", "edge"])  # fmt: skip
    monkeypatch.setattr(type(done.study), "contrasts", {"to slow": "slow"}, raising=False)
    return done.study, done.store.finished


def cells(text: str, arm: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {arm} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_differences_are_taken_by_seed_with_students_interval(swept: tuple[Study, Store]) -> None:
    study, store = swept
    text = arm_numbers(study, store.runs)
    assert "loss to slow" in text.splitlines()[2]
    loss = {(run.arm, run.seed): run.summary["loss"] for run in store}
    apart = np.array([loss["fast", seed] - loss["slow", seed] for seed in (1, 2, 3, 4)])
    half = stats.t.ppf(0.975, 3) * apart.std(ddof=1) / 2
    assert cells(text, "fast")[4] == estimate_text(apart.mean(), (apart.mean() - half, apart.mean() + half))
    assert cells(text, "slow")[4] == "", "an arm does not differ from itself"


def test_chosen_values_are_shown_and_those_at_an_edge_marked(swept: tuple[Study, Store]) -> None:
    text = arm_numbers(swept[0], swept[1].runs)
    assert cells(text, "slow")[2] == "0.03" and cells(text, "edge")[2] == "[0.3]"
    assert "at the edge of its grid" in text
    without = [run for run in swept[1] if run.arm != "edge"]
    assert "at the edge of its grid" not in arm_numbers(swept[0], without)


def test_an_arm_that_is_not_there_is_not_compared_with(swept: tuple[Study, Store]) -> None:
    text = arm_numbers(swept[0], [run for run in swept[1] if run.arm == "fast"])
    assert cells(text, "fast")[4] == ""


@pytest.mark.parametrize(("arm", "found"), [
    ("mlp/dfa", "mlp/bp"), ("mlp/kp/decay", "mlp/bp"), ("mlp/bp", ""), ("bp", ""), ("dfa", "bp"),
])  # fmt: skip
def test_an_arm_is_compared_within_its_group(arm: str, found: str) -> None:
    assert _sibling(arm, "bp", {"mlp/bp": 0, "conv/bp": 0}) == found


def test_a_page_has_verdicts_published_values_and_the_heads_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_sweep("depth", [1, 2], ComputeOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Directory(tmp_path).checked()
    run = archive.store.finished[0]
    value = PublishedValue(run.arm, "initial_loss", "loss at the start", "7", 7.0, 7.0, {"steps": 2}, "a remark")
    monkeypatch.setattr(type(done.study), "published", {"A and B (2026)": (value,)}, raising=False)
    ids = {run.id for run in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    assert text.startswith("# Verdicts on embedded data\n\nWritten by `kymograph reproduce`: ")
    assert f"| {run.arm}, steps 2 | loss at the start | 7 | " in text and "differs: a remark" in text
    assert archive.log.heads and all(head in text for head in archive.log.heads)
    assert "This is a copy of" not in text
    assert all(line.count("|") >= 3 for line in text.splitlines() if line.startswith("|"))


def test_published_values_are_printed_with_their_own_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_sweep("depth", [1, 2], ComputeOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Directory(tmp_path).checked()
    first, second = archive.store.finished[0].arm, archive.store.finished[-1].arm
    published = {
        source: (PublishedValue(arm, "initial_loss", "loss at the start", value, 0.0, 0.0),)
        for source, arm, value in [("A and B (2026)", first, "7.1"), ("C (2027)", second, "7.2")]
    }
    published["D (2028)"] = (PublishedValue(first, "no such number", "number", "7.3", 0.0, 0.0),)
    monkeypatch.setattr(type(done.study), "published", published, raising=False)
    ids = {run.id for run in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    _, first_source, second_source = text.partition("## Provenance")[0].split("Published: ")
    assert first_source.startswith("A and B (2026). Values agree if ")
    assert "7.1" in first_source and "7.2" not in first_source
    assert second_source.startswith("C (2027). Values agree if ")
    assert "7.2" in second_source and "7.1" not in second_source
    assert "Hao" not in text


def test_a_published_value_that_some_seeds_lack_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_sweep("depth", [1, 2, 3], ComputeOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Directory(tmp_path).checked()
    first = archive.store.finished[0]
    first.summary["initial_loss"] = None
    value = PublishedValue(first.arm, "initial_loss", "loss at the start", "any", 0.0, 1e9)
    monkeypatch.setattr(type(done.study), "published", {"A (2026)": (value,)}, raising=False)
    ids = {run.id for run in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "digits", "kymograph reproduce")
    assert "| 2 of 3 | differs: not explained |" in text


def test_a_copy_of_a_data_set_that_is_known_to_differ_is_pointed_out(tmp_path: Path) -> None:
    done = run_sweep("depth", [1], ComputeOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Directory(tmp_path).checked()
    (digest, remark), *_ = DATA_SETS.part("cifar10").properties["copies"].items()
    archive.store.finished[0].summary["data_digest"] = digest
    ids = {run.id for run in archive.store.finished}
    text = verdict_page(judge(archive), archive, [done.study], ids, "cifar10", "kymograph reproduce")
    assert f"## Provenance\n\n{remark}\n\n" in text


def test_runs_that_were_not_judged_are_not_on_the_page(tmp_path: Path) -> None:
    done = run_sweep("depth", [1, 2], ComputeOptions(out=tmp_path, engine="serial"), fields={"steps": 2})
    archive = Directory(tmp_path).checked()
    judged = {archive.store.finished[0].id}
    assert "; 1 run, 1 seed." in verdict_page(judge(archive), archive, [done.study], judged, "digits", "x")


def test_a_tuned_study_is_reproduced_with_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(ComputeOptions(out=tmp_path, engine="serial", quiet=True), 6, study=REFERENCE) == 0
    text = (tmp_path / "verdicts.md").read_text()
    assert f"Written by `kymograph reproduce --study {REFERENCE}`: " in text and "12 runs, 6 seeds" in text
    assert "## Numbers of bowl" in text and "| slow | 6 | " in text
    assert "bowl.tuning" not in text, "tuning runs are not among those that are judged"
