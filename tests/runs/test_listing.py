"""Runs by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._runs.directory import Directory
from kymograph._runs.listing import NamedRun, match, named_runs
from kymograph._runs.record import RunResult, write_failure
from kymograph._runs.spec import RunSpec
from tests.records import write_record


def spec(arm: str, seed: int, version: int = 1, **config: object) -> RunSpec:
    return RunSpec("rates", arm, seed, config, version)


@pytest.fixture
def runs(tmp_path: Path) -> list[NamedRun]:
    """Two rates of one arm and seed, a failed run, one of earlier code, a planned one, and a damaged one."""
    for lr in (0.1, 0.03):
        write_record(tmp_path, spec("a/b", 2, version=2, lr=lr), RunResult({}, {"loss": lr}), {}, 1.0)
    write_record(tmp_path, spec("old", 1, version=1, lr=0.1), RunResult({}, {"loss": 1.0}), {}, 1.0)
    write_record(tmp_path, spec("old", 1, version=2, lr=0.1), RunResult({}, {"loss": 2.0}), {}, 1.0)
    write_failure(tmp_path, spec("bad", 1, version=2, lr=0.1), "it broke", {}, "Traceback: here")
    broken = spec("cut", 1, version=2, lr=0.1)
    write_record(tmp_path, broken, RunResult({}, {"loss": 2.0}), {}, 1.0)
    (tmp_path / broken.directory / "status.json").write_text("{")
    (tmp_path / "rates").mkdir(exist_ok=True)
    Directory(tmp_path).plan([spec("a/b", 3, version=2, lr=0.1)])
    return named_runs(Directory(tmp_path))


def test_names_are_unique_and_have_the_settings_that_tell_runs_apart(runs: list[NamedRun]) -> None:
    assert {run.name: run.status for run in runs} == {
        "rates/a/b/s2,lr=0.03": "finished",
        "rates/a/b/s2,lr=0.1": "finished",
        "rates/a/b/s3": "missing",
        "rates/bad/s1": "failed",
        "rates/cut/s1": "damaged",
        "rates/old/s1,version=1": "superseded",
        "rates/old/s1,version=2": "finished",
    }


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("rates/bad/s1", ["bad/s1"]),
        ("bad/s1", ["bad/s1"]),
        ("a/b/s2,lr=0.1", ["a/b/s2,lr=0.1"]),
        ("a/b/s2", ["a/b/s2,lr=0.03", "a/b/s2,lr=0.1"]),
        ("a/b/*", ["a/b/s2,lr=0.03", "a/b/s2,lr=0.1", "a/b/s3"]),
        ("*,version=1", ["old/s1,version=1"]),
    ],
)
def test_a_name_means_one_run_and_a_pattern_several(runs: list[NamedRun], name: str, found: list[str]) -> None:
    assert [run.short_name for run in match(runs, name)] == found


def test_an_id_or_its_start_is_a_name_too(runs: list[NamedRun]) -> None:
    for run in runs:
        assert match(runs, run.id) == [run] == match(runs, run.id[:8])


def test_an_unknown_name_is_one_sentence(runs: list[NamedRun]) -> None:
    with pytest.raises(KymographError, match=r"there is no run 'bda/s1'; did you mean 'bad/s1'\?"):
        match(runs, "bda/s1")
    with pytest.raises(KymographError, match="list them with `kymograph show`"):
        match(runs, "qqqqqqqqqqqq")


@pytest.mark.parametrize("name", ["a-s1-**", "a-s1-[", "a-s1-**x", "a-s1-?"])
def test_a_damaged_run_has_its_own_directory_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    """Its id was used as a pattern, which some names are not."""
    for one in (name, "a-s1-x"):
        (tmp_path / "st" / one).mkdir(parents=True)
        (tmp_path / "st" / one / "status.json").write_text("{")
    found = {run.directory for run in named_runs(Directory(tmp_path))}
    assert found == {tmp_path / "st" / name, tmp_path / "st" / "a-s1-x"}
