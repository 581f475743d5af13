"""Which runs were planned, and whose code is current."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kymograph
from kymograph._runs.declaration import Declaration
from kymograph._runs.directory import Directory
from kymograph._runs.history import code_words, current_code
from kymograph._runs.spec import RunSpec
from kymograph._sharing.verify import all_hold, verify
from tests.pictures.live.stage import plan
from tests.studies import walks
from tests.studies.tossing import REFERENCE

runs = st.lists(
    st.builds(
        RunSpec, st.sampled_from(["one", "two/2"]), st.text(st.characters(codec="utf-8"), max_size=5),
        st.integers(0, 9), st.just({"lr": 0.1}), st.just(1),
    )
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(sweeps=st.lists(runs, max_size=4))
def test_the_plan_is_the_union_of_all_sweeps(tmp_path_factory: pytest.TempPathFactory, sweeps: list) -> None:
    root = tmp_path_factory.mktemp("plan")
    for specs in sweeps:
        plan(root, specs)
    planned = Directory(root).planned
    assert sorted(run.id for run in planned) == sorted({spec.id for specs in sweeps for spec in specs})
    assert {run.id: run for run in planned} == {spec.id: spec for specs in sweeps for spec in specs}


def test_a_sweep_notes_its_runs_before_it_starts_and_a_smaller_one_unlists_none(tmp_path: Path) -> None:
    options = {"arms": ["extreme/clip"], "out": tmp_path, "quiet": True}
    kymograph.run(walks.REFERENCE, seeds=[1, 2], **options)
    before = {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    kymograph.run(walks.REFERENCE, seeds=[2], **options)
    assert {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()} == before
    kymograph.run(walks.REFERENCE, seeds=[3], **options)
    for directory in (tmp_path, tmp_path / "walks"):
        assert [(run.study, run.arm, run.seed) for run in Directory(directory).planned] == [
            ("walks", "extreme/clip", seed) for seed in (1, 2, 3)
        ]
    assert {run.directory for run in Directory(tmp_path).planned} == {
        f"{run.directory.parent.name}/{run.directory.name}" for run in kymograph.Store.open(tmp_path)
    }


WITHOUT_LOCKS = """
import fcntl, sys
from pathlib import Path
def refuse(*arguments): raise OSError(95, "Operation not supported")
fcntl.flock = fcntl.lockf = refuse
import kymograph
from kymograph._runs import declaration
from kymograph._io.writing import one_at_a_time
root, name = Path(sys.argv[1]), sys.argv[2]
"""


@pytest.mark.slow
def test_sweeps_started_at_once_are_all_listed_where_there_are_no_locks(tmp_path: Path) -> None:
    """Advisory locks fail on some shared file systems; a sweep then used to overwrite what another one had listed."""
    code = f"""{WITHOUT_LOCKS}
for seed in range(4):
    kymograph.run({REFERENCE!r}, seeds=[ord(name) * 10 + seed], out=root, quiet=True)
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(Directory(tmp_path).planned) == 24 and all_hold(verify(tmp_path))
    assert not (tmp_path / ".lock").exists()


def test_what_a_study_declares_is_merged_where_there_are_no_locks(tmp_path: Path) -> None:
    code = f"""{WITHOUT_LOCKS}
for number in range(25):
    one = declaration.Declaration("s", version=1)
    declaration.write_declaration(root, one, {{f"{{name}}{{number}}": {{f"rule {{name}}{{number}}": "hash"}}}})
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    declared = kymograph.Store([], tmp_path).declarations["s"]
    assert set(declared.part_sources) == {f"{name}{number}" for name in "ab" for number in range(25)}


def spec(version: int, source: str | None = None) -> RunSpec:
    return RunSpec("s", "a", 1, {}, version, source)


STORED = Declaration("s", version=1, source="b", stored=True)


def test_what_was_declared_with_the_last_sweep_is_current_even_if_its_version_is_lower() -> None:
    """A version that was raised and taken back used to leave the runs just computed superseded."""
    code = current_code([spec(2, "a"), spec(1, "b")], {"s": STORED})["s"]
    assert code.made(spec(1, "b")) and not code.made(spec(2, "a")) and not code.made(spec(1, "a"))


def test_without_a_stored_declaration_the_newest_version_is_current() -> None:
    for declarations in ({}, {"s": replace(STORED, version=9, stored=False)}):
        code = current_code([spec(1), spec(2), spec(2, "x")], declarations)["s"]
        assert code.made(spec(2)) and code.made(spec(2, "x")) and not code.made(spec(1))


def test_code_is_named_by_its_source_or_its_version() -> None:
    assert (code_words(spec(3)), code_words(spec(3, "abc"))) == (("version", "3"), ("source", "abc"))
