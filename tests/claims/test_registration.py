"""Logs with wrong entries, and what a user is told about claims before and after a sweep."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymograph
import kymograph as ky
from kymograph._claims.registration import NOT_LOGGED, REGISTRATION, log_problems
from kymograph._claims.tuning import CHOICE
from kymograph._runs import log
from kymograph._runs.directory import Directory
from kymograph._runs.history import SWEEP, History
from kymograph._runs.log import Entry, Log
from kymograph._sharing.verify import verify
from tests.cli.command import call
from tests.studies.bowl import REFERENCE as TUNED
from tests.studies.tossing import REFERENCE, Tossing

WRONG: tuple[Any, ...] = (5, 1.5, True, "x", [5], ["x"], [[]], {}, {"x": 5}, [{}], None)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """An entry of every kind that is written."""
    out = tmp_path_factory.mktemp("log")
    store = kymograph.run(REFERENCE, n_seeds=6, out=out, quiet=True)
    kymograph.run(TUNED, n_seeds=6, out=out, quiet=True, depth=1.0)
    Directory(out).abandon([store[0].id], [store[0].id], "too dear")
    Directory(out).reinstate([store[0].id], "cheap again")
    Directory(out).replacing(store[1].spec)
    return list(Log.read(out).entries.values())


def changed(content: Any) -> Iterator[Any]:
    """Returns ``content`` with one value, at any depth, replaced or gone; the top is kept."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in list(items):
        for wrong in WRONG:
            yield {**content, key: wrong} if isinstance(content, dict) else [*content[:key], wrong, *content[key + 1 :]]
        for inner in changed(value):
            whole = copy.copy(content)
            whole[key] = inner
            yield whole
        if isinstance(content, dict):
            yield {name: one for name, one in content.items() if name != key}


def test_what_the_program_writes_has_no_problem(entries: list[Entry]) -> None:
    assert {entry.kind for entry in entries} == {SWEEP, REGISTRATION, CHOICE, "abandoned", "reinstated", "replaced"}
    assert log_problems(Log(entries=entries)) == []


def test_no_wrong_value_ends_in_anything_but_a_sentence(entries: list[Entry]) -> None:
    named = tried = 0
    for kind in dict.fromkeys(entry.kind for entry in entries):
        entry = next(one for one in entries if one.kind == kind)
        for content in changed(dict(entry.content)):
            forged = Entry(kind, content, (), entry.time, entry.writer)
            found = Log(entries=[forged])
            problems = log_problems(found)
            assert all(forged.hash[: log.SHORT] in problem for problem in problems)
            _ = History(found).abandoned, History(found).reinstated
            if kind == SWEEP and not problems:  # every run that it lists is planned
                planned = {(spec.arm, spec.seed) for spec in History(found).planned.values()}
                assert planned == {(group["arm"], seed) for group in content["runs"] for seed in group["seeds"]}
            tried, named = tried + 1, named + bool(problems)
    assert named > tried / 4


def test_a_claim_about_runs_without_a_log_is_post_hoc(tmp_path: Path) -> None:
    kymograph.run(REFERENCE, n_seeds=5, out=tmp_path, quiet=True, engine="serial")
    shutil.rmtree(tmp_path / log.DIRECTORY)
    (verdict,) = kymograph.judge(tmp_path, studies=[Tossing()])
    assert verdict.registration == NOT_LOGGED == "not logged, post hoc"
    assert "WRONG  the log: missing" in map(str, verify(tmp_path))


def test_names_of_what_is_wrong(tmp_path: Path) -> None:
    for kind, content, words in (
        (SWEEP, {"study": "s", "runs": 5}, "not a readable sweep: it lists no runs of a study"),
        (SWEEP, {"study": "s", "runs": [], "declaration": 5}, "its declaration is not a digest"),
        (SWEEP, {"study": "s", "runs": [{"seeds": [0]}]}, "its runs lack an arm"),
        (SWEEP, {"study": "s", "runs": [{"seeds": [2**70]}]}, "a seed is not a 64-bit integer"),
        ("abandoned", {"runs": ["a"]}, "it names no runs, or no reason"),
        ("abandoned", {"runs": ["a"], "reason": "r", "finished": ["b"]}, "finished runs that are not among its runs"),
        ("reinstated", {"runs": [], "reason": "r"}, "not a readable reinstated: it names no runs, or no reason"),
        ("replaced", {}, "it names no run"),
        (REGISTRATION, {"study": "s", "claims": {}, "seeds": [1], "design": "fixed"}, "the design is not an object"),
        (REGISTRATION, {"study": "s", "claims": {"a": {}}, "seeds": [1], "design": {"kind": "fixed"}}, "'right'"),
        (CHOICE, {"study": "s", "choices": [{}]}, "a choice lacks its arm"),
        ("hearsay", {}, "is of a kind that this version does not know"),
    ):
        written = Log.read(tmp_path).append(kind, content)
        (problem,) = [one for one in log_problems(Log.read(tmp_path)) if written.hash[: log.SHORT] in one]
        assert words in problem


def test_runs_without_claims_are_judged_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ky.record("lone", arm="a", seed=1, out=tmp_path) as run:
        run.summary(x=1.0)
    assert call("judge", str(tmp_path)) == 0
    assert capsys.readouterr().err == "no claims are registered for these runs; state some with --claims FILE\n"
