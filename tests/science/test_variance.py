"""Sources of variance one after the other, and what their runs do to verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph._claims.claim import Claim, Measure, Side
from kymograph._claims.judge import judge
from kymograph._claims.registration import register, register_study, registered_claims, registrations
from kymograph._errors import KymographError
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.log import Log
from kymograph._runs.store import Store
from kymograph._streams import fixed_seeds
from kymograph._studies.loading import load_study
from kymograph_studies.variance import (
    ALL,
    SETTING,
    SourceSweeps,
    compared_as_ratios,
    sources_of,
    table,
    vary_sources,
)
from tests.cli.command import call
from tests.studies.varying import REFERENCE, SD, Varying

SOURCES = (ALL, "initialisation", "order", "feedback")


def options(root: Path) -> ComputeOptions:
    return ComputeOptions(root, "serial", quiet=True)


def varied(root: Path, seeds: int = 10, **settings: object) -> SourceSweeps:
    return vary_sources(REFERENCE, fixed_seeds(seeds), options(root), **settings)  # type: ignore[arg-type]


def test_every_source_is_swept_and_the_known_one_is_found(tmp_path: Path) -> None:
    done = varied(tmp_path, seeds=30)
    assert tuple(done.sweeps) == SOURCES and done.failures == 0
    assert all(one.computed == 60 for one in done.sweeps.values())
    learned, exact = done.arms
    assert (learned.name, exact.name) == ("learned", "exact")
    size, tilt = learned.numbers
    assert size.log and size.dominant == "initialisation", "claims compare it as a ratio"
    assert not tilt.log and tilt.dominant is None, "all sources contribute alike"
    for one in size.sources:
        truth = np.sqrt(sum(sd**2 for sd in SD.values())) if one.source == ALL else SD[one.source]
        assert one.low < truth < one.high, one.source
    idle = [one.source for number in exact.numbers for one in number.sources if one.idle]
    assert idle == ["feedback", "feedback"] and exact.numbers[0].dominant == "initialisation"
    text = table(done.arms)
    assert "ln size: initialisation varies it most (p < 0.0001)" in text
    assert "tilt: no source clearly dominates (" in text
    assert text.count("does nothing: all runs agree") == 2 and "assume normal values" in text


def test_runs_that_are_there_are_not_computed_again_and_others_in_the_directory_do_not_count(tmp_path: Path) -> None:
    first = varied(tmp_path, sources=["order"])
    assert tuple(first.sweeps) == (ALL, "order")
    again = varied(tmp_path, seeds=4, sources=["order"])
    assert [one.computed for one in again.sweeps.values()] == [0, 0]
    assert {one.n for arm in again.arms for number in arm.numbers for one in number.sources} == {4}


def test_the_claims_are_registered_for_all_sources_together(tmp_path: Path) -> None:
    """A first sweep with one source would register them for runs that nobody wants to judge."""
    varied(tmp_path, fields={"epochs": 2})
    (found,) = registrations(Log.read(tmp_path), "varying")
    assert dict(found.terms.fields) == {"epochs": 2} and SETTING not in found.terms.settings.of("learned")
    plain = tmp_path / "plain"
    plain.mkdir()
    register_study(Log.read(plain), Varying(), fixed_seeds(10), {"epochs": 2})
    (expected,) = registrations(Log.read(plain), "varying")
    assert found.terms == expected.terms and set(found.claims) == set(expected.claims)


def test_verdicts_stay_as_they_are_when_other_sources_are_run_beside_them(tmp_path: Path) -> None:
    run_sweep(REFERENCE, fixed_seeds(10), options(tmp_path))
    (before,) = judge(tmp_path)
    varied(tmp_path)
    (after,) = judge(tmp_path)
    assert before.outcome == after.outcome == "SUPPORTED" and before.registration == after.registration == "registered"
    assert after.notes == (*before.notes, "30 runs with another vary than registered were not used")
    assert replace(after, notes=before.notes) == before
    assert len(Store.open(tmp_path)) == 80


def test_runs_of_one_source_alone_are_judged_only_when_they_are_named_and_as_post_hoc(tmp_path: Path) -> None:
    varied(tmp_path)
    (verdict,) = judge(tmp_path, where={SETTING: "order"})
    assert verdict.n == 10 and verdict.registration.startswith("post hoc") and verdict.settings[SETTING] == "order"


def test_the_sources_are_those_that_the_setting_may_name() -> None:
    assert sources_of(Varying()) == SOURCES
    assert sources_of(load_study("snapshot")) == (*SOURCES, "split")
    with pytest.raises(KymographError, match="the sources of variance of depth cannot be separated"):
        sources_of(load_study("depth"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 1}, "at least two seeds"),
        ({"sources": ["ordr"]}, "no source of variance 'ordr'; did you mean 'order'"),
        ({"fields": {SETTING: "order"}}, "every source is varied in turn"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_written(tmp_path: Path, settings: dict, words: str) -> None:
    with pytest.raises(KymographError, match=words):
        varied(tmp_path / "runs", **settings)
    assert not (tmp_path / "runs").exists()


class Nameless(Varying):
    """A study that declares no number to show."""

    headlines = {}


def test_a_study_without_headline_numbers_has_nothing_to_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kymograph_studies.variance.load_study", lambda reference: Nameless())
    with pytest.raises(KymographError, match="no headline numbers"):
        varied(tmp_path)


def test_a_missing_source_is_no_table(tmp_path: Path) -> None:
    kymograph.run(REFERENCE, n_seeds=2, out=tmp_path, quiet=True)
    assert table([]) == "No two sources have runs to compare."


SERIAL = ("--engine", "serial", "--quiet")


def test_the_command_runs_every_source_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("variance", REFERENCE, "--n-seeds", "10", "--arms", "learned", "--epochs", "3", "--dir", str(tmp_path))
    assert call(*words, *SERIAL) == 0
    text = capsys.readouterr().out
    assert "varying: 40 runs computed, 0 found, 0 failed" in text and "ln size: initialisation varies it most" in text
    assert {run.config["epochs"] for run in Store.open(tmp_path)} == {3}
    assert call(*words, "--sources", "order", *SERIAL) == 0
    text = capsys.readouterr().out
    assert "0 runs computed, 20 found" in text and "feedback " not in text.split("sd over runs")[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("depth",), "the sources of variance of depth cannot be separated"),
        ((REFERENCE, "--vary", "order"), "every source is varied in turn"),
        ((REFERENCE, "--sources"), "--sources needs at least one source"),
        ((REFERENCE, "--n-seeds", "1"), "at least two seeds"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, words: tuple[str, ...], error: str
) -> None:
    assert call("variance", *words, "--dir", str(tmp_path / "runs")) == (1 if words == ("depth",) else 2)
    printed = capsys.readouterr().err
    assert error in printed and printed.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_help_says_what_it_does_and_lists_the_settings(capsys: pytest.CaptureFixture) -> None:
    assert call("variance") == 2 and "one at a time" in capsys.readouterr().out
    assert call("variance", "snapshot", "--help") == 0
    text = capsys.readouterr().out
    assert "--sources" in text and "--epochs" in text


def test_failed_runs_are_counted_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(spec: object) -> None:
        raise RuntimeError("no")

    load_study(REFERENCE)  # which imports the module anew the first time, and would undo what is patched below
    monkeypatch.setattr("tests.studies.varying._drawn", fails)
    assert call("variance", REFERENCE, "--n-seeds", "2", "--arms", "learned", "--dir", str(tmp_path), *SERIAL) == 1
    captured = capsys.readouterr()
    assert "0 runs computed, 0 found, 8 failed" in captured.out and "No two sources" in captured.out
    assert "failed: learned, seed 42 and 7 other runs: RuntimeError: no" in captured.err


def claim(name: str, measure: Measure, scale: str, study: str = "s") -> Claim:
    left, right = (Side(arm, measure) for arm in ("a", "b"))
    return Claim(name, study, name, left, right, "greater", 1.0, scale, origin="a test")  # type: ignore[arg-type]


def test_only_summary_numbers_on_the_ratio_scale_count_and_they_are_found_where_they_are_registered(
    tmp_path: Path,
) -> None:
    made = [
        claim("norms", Measure("norm"), "log ratio"),
        claim("accuracies", Measure("accuracy"), "difference"),
        claim("series", Measure("stream", "last"), "log ratio"),
        claim("others", Measure("elsewhere"), "log ratio", study="t"),
    ]
    assert compared_as_ratios(made[:3]) == {"norm"}
    register(tmp_path, made)
    history = Log.read(tmp_path)
    for study, ratios in {"s": {"norm"}, "t": {"elsewhere"}, "u": set()}.items():
        versions = registered_claims(history, study).values()
        assert compared_as_ratios(claim for claims in versions for claim in claims) == ratios
