from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.live.state import LiveCounts, LiveState, look
from kymograph.runs.ledger import PLAN, note_plan
from kymograph.runs.record import SUMMARY
from kymograph.runs.store import Store
from tests.live.stage import beat, dead_process, fail, finish, specs
from tests.studies.gated import GATE


def only(state: LiveState):
    (study,) = state.studies
    return study


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_condition_is_told_apart(tmp_path: Path) -> None:
    runs = specs(7)
    note_plan(tmp_path, runs)
    for spec in runs[:2]:
        finish(tmp_path, spec)
    fail(tmp_path, runs[2])
    fail(tmp_path, runs[3])
    beat(tmp_path, runs[3:5], started=time.time() + 1)  # the fourth failed before and is tried again
    stopped = beat(tmp_path, [runs[0], runs[5]], dead_process())
    before = contents(tmp_path)
    state = look(tmp_path, time.time())
    study = only(state)
    assert study.counts == LiveCounts(finished=2, failed=1, running=2, stopped=1, waiting=1)
    assert study.counts.planned == 7 and not state.ended
    assert [(f.arm, f.seed, f.reason) for f in study.failures] == [("a", 2, "RuntimeError: cursed")]
    assert [(w.runs, w.done, w.steps, w.words, w.alive) for w in study.work if w.alive] == [
        (2, 25, 100, "loss 0.3", True)
    ]
    assert {w.alive for w in study.work} == {True, False}
    stopped.unlink()
    assert only(look(tmp_path, time.time())).counts.stopped == 0
    before.pop(str(stopped))
    assert contents(tmp_path) == before, "looking changes nothing"
    json.dumps(state.to_json(), allow_nan=False)


def test_a_run_that_failed_under_this_very_process_has_failed(tmp_path: Path) -> None:
    runs = specs(2)
    note_plan(tmp_path, runs)
    beat(tmp_path, runs, started=time.time() - 10)
    fail(tmp_path, runs[0])
    assert only(look(tmp_path, time.time())).counts == LiveCounts(failed=1, running=1)


def test_all_ended_is_ended_and_nothing_planned_is_not(tmp_path: Path) -> None:
    assert look(tmp_path, 0.0) == LiveState(str(tmp_path), ()) and not look(tmp_path, 0.0).ended
    runs = specs(2)
    note_plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    assert not look(tmp_path, 0.0).ended
    fail(tmp_path, runs[1])
    assert look(tmp_path, 0.0).ended and only(look(tmp_path, 0.0)).eta is None
    with pytest.raises(KymographError, match="no directory"):
        look(tmp_path / "absent", 0.0)


def test_runs_without_a_plan_are_shown_and_so_is_a_studys_own_directory(clipping_store: Store, tmp_path: Path) -> None:
    assert clipping_store.root is not None
    shutil.copytree(clipping_store.root, tmp_path, dirs_exist_ok=True)
    whole = look(tmp_path, 0.0)
    (tmp_path / "clipping" / PLAN).unlink()
    bare = look(tmp_path, 0.0)
    assert bare.ended and only(bare).counts.finished == len(clipping_store)
    assert {arm.name: arm for arm in only(bare).arms} == {arm.name: arm for arm in only(whole).arms}
    assert look(tmp_path / "clipping", 0.0).studies == bare.studies


def test_headlines_are_the_stores_means(clipping_store: Store) -> None:
    assert clipping_store.root is not None
    study = only(look(clipping_store.root, 0.0))
    array = clipping_store.summary("spike_ratio")
    for arm in study.arms:
        (headline,) = [one for one in arm.headlines if one.key == "spike_ratio"]
        assert headline.mean == pytest.approx(array.sel(arm=arm.name).values.mean())
        assert sorted(headline.values) == sorted(array.sel(arm=arm.name).values)  # type: ignore[type-var]
        assert arm.trace is not None and arm.trace.name == "loss" and len(arm.trace.values) == 60


def test_one_arm_at_two_settings_is_two_rows(tmp_path: Path) -> None:
    runs = [*specs(2), *specs(2, lr=0.2), *specs(1, arm="b")]
    note_plan(tmp_path, runs)
    finish(tmp_path, runs[0], {"spike_ratio": 1.0})
    finish(tmp_path, runs[2], {"spike_ratio": 100.0})
    arms = {arm.name: arm for arm in only(look(tmp_path, 0.0)).arms}
    assert list(arms) == ["a (lr=0.1)", "a (lr=0.2)", "b"]
    assert [arm.headlines[0].mean for arm in arms.values() if arm.headlines] == [1.0, 100.0]


def test_damage_is_told_and_hides_nothing_else(tmp_path: Path) -> None:
    runs = specs(4)
    note_plan(tmp_path, runs)
    for spec in runs[:3]:
        finish(tmp_path, spec)
    (tmp_path / runs[0].directory / "status.json").write_text("{")
    (tmp_path / runs[1].directory / SUMMARY).write_text("{")
    study = only(look(tmp_path, 0.0))
    assert study.counts == LiveCounts(finished=2, failed=1, waiting=1)
    assert "cut off" in study.failures[0].reason
    assert study.arms[0].headlines[0].values == (None, 3.0)
    (tmp_path / "clipping" / PLAN).write_text("{")
    state = look(tmp_path, 0.0)
    assert state.damaged and "what was planned is unknown" in only(state).notes[0]
    assert only(state).counts.finished == 2


def test_leftovers_are_no_runs(tmp_path: Path) -> None:
    runs = specs(1)
    note_plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    directory = tmp_path / runs[0].directory
    for name in (f".{directory.name}.new.1", f"{directory.name}.part"):
        shutil.copytree(directory, directory.with_name(name))
    (tmp_path / "figures").mkdir()
    assert only(look(tmp_path, 0.0)).counts == LiveCounts(finished=1)


def test_a_study_named_in_a_file_is_never_imported(tmp_path: Path) -> None:
    (run,) = specs(1, study="antigravity:fly")
    note_plan(tmp_path, [run])
    finish(tmp_path, run, {"height": 3.0, "word": "up", "sure": True, "missing": None})
    study = only(look(tmp_path, 0.0))
    assert "antigravity" not in sys.modules
    assert [(h.label, h.mean) for h in study.arms[0].headlines] == [("height", 3.0), ("missing", None)]


def until(root: Path, wanted: Callable[[LiveCounts], bool], seconds: float = 30) -> LiveState:
    """Looks until the counts are as wanted."""
    deadline = time.monotonic() + seconds
    while True:
        state = look(root, time.time())
        if state.studies and wanted(only(state).counts):
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.02)


def test_a_sweep_is_seen_running_stopped_running_and_done(tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "runs"
    gate.mkdir()
    out.mkdir()
    command = [sys.executable, "-m", "kymograph", "run", "tests.studies.gated:Gated", "--seeds", "1", "2", "--quiet",
               "--out", str(out), "--engine", "serial"]  # fmt: skip
    start = lambda: subprocess.Popen(command, env={**os.environ, GATE: str(gate)}, stdout=subprocess.DEVNULL)  # noqa: E731
    sweep = start()
    try:
        until(out, lambda c: c == LiveCounts(running=1, waiting=1))
        sweep.send_signal(signal.SIGKILL)
        stopped = until(out, lambda c: c.stopped == 1)
        assert only(stopped).counts == LiveCounts(stopped=1, waiting=1) and not stopped.ended
        assert [work.alive for work in only(stopped).work] == [False] and only(stopped).eta is None
        sweep.wait()
        sweep = start()
        running = until(out, lambda c: c.running == 1)
        assert only(running).counts == LiveCounts(running=1, waiting=1)
        (gate / "1").touch()
        until(out, lambda c: c == LiveCounts(finished=1, running=1))
        deadline = time.monotonic() + 40  # the second heartbeat of the second run brings its words
        while not (work := only(look(out, time.time())).work) or work[0].words != "halfway":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (work[0].arms, work[0].seeds, work[0].done, work[0].steps) == (("wait",), (2,), 5, 10)
        (gate / "2").touch()
        assert until(out, lambda c: c.finished == 2).ended
        assert sweep.wait() == 0 and look(out, time.time()).studies[0].work == ()
        assert not (out / "gated" / ".running").exists()
    finally:
        sweep.kill()
        sweep.wait()
