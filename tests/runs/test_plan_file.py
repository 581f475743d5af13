from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kymograph
from kymograph.errors import KymographError
from kymograph.lab.verify import all_hold, verify
from kymograph.runs.plan_file import PLAN, mend_plan, read_plan, record_plan
from kymograph.runs.spec import RunSpec
from tests.conftest import QUICK_CLIPPING
from tests.studies.tossing import REFERENCE

runs = st.lists(
    st.builds(
        RunSpec, st.sampled_from(["one", "two/2"]), st.text(max_size=5), st.integers(0, 9), st.just({"lr": 0.1}),
        st.just(1),
    )
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(sweeps=st.lists(runs, max_size=4))
def test_the_plan_is_the_union_of_all_sweeps(tmp_path_factory: pytest.TempPathFactory, sweeps: list) -> None:
    root = tmp_path_factory.mktemp("plan")
    for specs in sweeps:
        record_plan(root, specs)
    planned = read_plan(root)
    assert sorted(run.id for run in planned) == sorted({spec.id for specs in sweeps for spec in specs})
    assert {run.id: run for run in planned} == {spec.id: spec for specs in sweeps for spec in specs}


def test_a_sweep_notes_its_runs_before_it_starts_and_a_smaller_one_unlists_none(tmp_path: Path) -> None:
    options = {"arms": ["extreme/clip"], "out": tmp_path, "quiet": True, **QUICK_CLIPPING}
    kymograph.run("clipping", seeds=[1, 2], **options)
    before = (tmp_path / "clipping" / PLAN).read_bytes()
    kymograph.run("clipping", seeds=[2], **options)
    assert (tmp_path / "clipping" / PLAN).read_bytes() == before
    kymograph.run("clipping", seeds=[3], **options)
    for place in (tmp_path, tmp_path / "clipping"):
        assert [(run.study, run.arm, run.seed) for run in read_plan(place)] == [
            ("clipping", "extreme/clip", seed) for seed in (1, 2, 3)
        ]
    assert {run.directory for run in read_plan(tmp_path)} == {
        f"{run.directory.parent.name}/{run.directory.name}" for run in kymograph.Store.open(tmp_path)
    }


def test_sweeps_started_at_once_are_all_listed(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from kymograph.runs.spec import RunSpec
from kymograph.runs.plan_file import record_plan
for seed in range(20):
    record_plan(Path(sys.argv[1]), [RunSpec("s", sys.argv[2], seed, {}, 1)])
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), arm]) for arm in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(read_plan(tmp_path)) == 60
    assert [path.name for path in (tmp_path / "s").iterdir()] == [PLAN]


def harmed(text: str) -> dict[str, str]:
    content = json.loads(text)
    return {
        "cut off": text[:30],
        "another seed": text.replace('"seed": 1', '"seed": 2'),
        "no runs": json.dumps({"schema": 1}),
        "no object": "[]",
        "no schema": json.dumps({"runs": content["runs"]}),
        "runs of numbers": json.dumps({"schema": 1, "runs": [1]}),
        "nested": "[" * 100_000,
        "not text": "\udcff",
    }


@pytest.mark.parametrize("harm", list(harmed('{"runs": []}')))
def test_a_damaged_plan_is_one_sentence_and_stays_as_it_was(tmp_path: Path, harm: str) -> None:
    options = {"seeds": [1], "arms": ["extreme/clip"], "out": tmp_path, "quiet": True, **QUICK_CLIPPING}
    record_plan(tmp_path, [RunSpec("clipping", "a", 1, {}, 1)])
    path = tmp_path / "clipping" / PLAN
    content = harmed(path.read_text())[harm].encode(errors="surrogateescape")
    path.write_bytes(content)
    with pytest.raises(KymographError, match=r"plan\.json is cut off or edited; restore it from a copy") as error:
        kymograph.run("clipping", **options)
    assert "\n" not in str(error.value) and path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == [PLAN], "nothing was computed"


TOSSES = {"n_seeds": 3, "quiet": True}


@pytest.mark.parametrize("loss", ["missing", "shortened", *harmed('{"runs": []}')])
def test_what_a_plan_lost_is_listed_again_from_the_log(
    tmp_path: Path, loss: str, capsys: pytest.CaptureFixture
) -> None:
    kymograph.run(REFERENCE, out=tmp_path, **TOSSES)
    path = tmp_path / "tossing" / PLAN
    whole = path.read_bytes()
    if loss == "missing":
        path.unlink()
    elif loss == "shortened":
        content = json.loads(whole)
        path.write_text(json.dumps({**content, "runs": content["runs"][:4]}))
    else:
        path.write_bytes(
            harmed(whole.decode().replace('"seed": 42', '"seed": 1'))[loss].encode(errors="surrogateescape")
        )
    damaged = path.read_bytes() if path.exists() else b""
    mend_plan(tmp_path, "tossing")
    note = capsys.readouterr().err
    assert path.read_bytes() == whole
    assert f"plan.json lacked {2 if loss == 'shortened' else 6} runs that the log has" in note
    if loss in ("missing", "shortened"):
        assert [*path.parent.glob("plan-*")] == []
    else:
        assert (path.parent / "plan-damaged-1.json").read_bytes() == damaged and "kept as plan-damaged-1.json" in note
    mend_plan(tmp_path, "tossing")
    assert capsys.readouterr().err == "" and all_hold(verify(tmp_path))


def test_a_sweep_lists_again_what_a_missing_plan_had(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A smaller sweep used to leave a plan of its own runs, and the others unlisted."""
    kymograph.run(REFERENCE, out=tmp_path, **TOSSES)
    path = tmp_path / "tossing" / PLAN
    whole = path.read_bytes()
    path.unlink()
    kymograph.run(REFERENCE, seeds=[42], out=tmp_path, quiet=True)
    assert path.read_bytes() == whole and "lacked 6 runs" in capsys.readouterr().err
    assert all_hold(verify(tmp_path))


def test_a_damaged_plan_is_not_rebuilt_from_a_damaged_log(tmp_path: Path) -> None:
    kymograph.run(REFERENCE, out=tmp_path, **TOSSES)
    path = tmp_path / "tossing" / PLAN
    path.write_text("{")
    (segment,) = (tmp_path / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes() + b"{")
    with pytest.raises(KymographError, match="restore it from a copy, or rename it and run the sweep's command again"):
        mend_plan(tmp_path, "tossing")
    assert path.read_text() == "{" and [*path.parent.glob("plan-*")] == []


def test_a_newer_plan_asks_for_an_upgrade(tmp_path: Path) -> None:
    record_plan(tmp_path, [RunSpec("s", "a", 1, {}, 1)])
    path = tmp_path / "s" / PLAN
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 9'))
    with pytest.raises(KymographError, match="schema 9, newer"):
        read_plan(tmp_path)
