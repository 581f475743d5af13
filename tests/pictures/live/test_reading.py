from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from kymograph._errors import KymographError
from kymograph._pictures.live import reading as module
from kymograph._pictures.live.reading import Watcher, read_state
from kymograph._pictures.live.state import LiveState, RunCounts, StudyState, traced_names
from kymograph._pictures.live.terminal import watch
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.declaration import Arm, Declaration, SeriesDisplay, write_declaration
from kymograph._runs.directory import Directory
from kymograph._runs.listing import named_runs
from kymograph._runs.log import DIRECTORY as LOG
from kymograph._runs.record import ARRAYS, STATUS, SUMMARY, RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._sharing.thin_copy import write_thin_copy
from tests.pictures.live.stage import beat, dead_process, declare, fail, finish, plan, specs
from tests.records import write_record
from tests.studies.gated import GATE


def only(state: LiveState) -> StudyState:
    (study,) = state.studies
    return study


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_condition_is_distinguished(tmp_path: Path) -> None:
    runs = specs(7)
    plan(tmp_path, runs)
    for spec in runs[:2]:
        finish(tmp_path, spec)
    fail(tmp_path, runs[2])
    fail(tmp_path, runs[3])
    beat(tmp_path, runs[3:5], started=time.time() + 1)  # the fourth failed before and is tried again
    stopped = beat(tmp_path, [runs[0], runs[5]], dead_process())
    before = contents(tmp_path)
    state = read_state(tmp_path, time.time())
    study = only(state)
    assert study.counts == RunCounts(finished=2, failed=1, running=2, missing=1, waiting=1)
    assert study.counts.planned == 7 and not state.ended
    assert [(run.arm, run.seed, run.condition, run.reason) for run in study.lost] == [
        ("a", 2, "failed", "RuntimeError: cursed")
    ]
    assert [(p.runs, p.done, p.steps, p.message, p.alive) for p in study.processes if p.alive] == [
        (2, 25, 100, "loss 0.3", True)
    ]
    assert {process.alive for process in study.processes} == {True, False}
    stopped.unlink()
    assert only(read_state(tmp_path, time.time())).counts.missing == 0
    before.pop(str(stopped))
    assert contents(tmp_path) == before, "reading changes nothing"
    json.dumps(state.to_json(), allow_nan=False)


def test_progress_counts_the_steps_of_running_runs(tmp_path: Path) -> None:
    """The bar used to stand still until a whole run had ended."""
    runs = specs(4)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    beat(tmp_path, runs[1:3], done=25, steps=100)
    assert only(read_state(tmp_path, time.time())).progress == pytest.approx(1 + 2 * 0.25)
    beat(tmp_path, runs[1:3], done=25, steps=0)
    study = only(read_state(tmp_path, time.time()))
    assert study.progress == 1 and study.processes[0].done == 25, "nobody knows how many steps there are"


def test_a_run_that_failed_under_this_very_process_has_failed(tmp_path: Path) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    beat(tmp_path, runs, started=time.time() - 10)
    fail(tmp_path, runs[0])
    assert only(read_state(tmp_path, time.time())).counts == RunCounts(failed=1, running=1)


def test_all_ended_is_ended_and_nothing_planned_is_not(tmp_path: Path) -> None:
    assert read_state(tmp_path, 0.0) == LiveState(str(tmp_path), ()) and not read_state(tmp_path, 0.0).ended
    runs = specs(2)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    assert not read_state(tmp_path, 0.0).ended
    fail(tmp_path, runs[1])
    assert read_state(tmp_path, 0.0).ended and only(read_state(tmp_path, 0.0)).eta is None
    with pytest.raises(KymographError, match="no directory"):
        read_state(tmp_path / "absent", 0.0)


def test_a_study_may_be_called_like_the_directory_that_holds_it(tmp_path: Path) -> None:
    """All its runs used to be waiting."""
    root = tmp_path / "warmup"
    runs = specs(2)
    plan(root, runs)
    finish(root, runs[0])
    assert only(read_state(root, 0.0)).counts == only(read_state(root / "warmup", 0.0)).counts
    assert only(read_state(root, 0.0)).counts.done == 1


def test_one_arm_at_two_settings_is_two_rows(tmp_path: Path) -> None:
    runs = [*specs(2), *specs(2, lr=0.2), *specs(1, arm="b")]
    plan(tmp_path, runs)
    finish(tmp_path, runs[0], {"spike_ratio": 1.0})
    finish(tmp_path, runs[2], {"spike_ratio": 100.0})
    arms = {arm.name: arm for arm in only(read_state(tmp_path, 0.0)).arms}
    assert list(arms) == ["a (lr=0.1)", "a (lr=0.2)", "b"]
    assert [arm.headlines[0].mean for arm in arms.values() if arm.headlines] == [1.0, 100.0]


def test_damaged_records_are_named_and_never_counted_as_done(tmp_path: Path) -> None:
    runs = specs(4)
    plan(tmp_path, runs)
    for spec in runs[:3]:
        finish(tmp_path, spec)
    finish(tmp_path, runs[3])
    (tmp_path / runs[0].directory / STATUS).write_text("{")
    (tmp_path / runs[1].directory / SUMMARY).write_text("{")
    arrays = tmp_path / runs[2].directory / ARRAYS
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1  # of the same size, with another checksum
    arrays.write_bytes(content)
    state = read_state(tmp_path, 0.0)
    study = only(state)
    assert study.counts == RunCounts(finished=1, damaged=3) and state.damaged and state.ended
    assert [(run.arm, run.seed, run.condition) for run in study.lost] == [("a", seed, "damaged") for seed in (0, 1, 2)]
    assert "cut off" in study.lost[0].reason and str(tmp_path) not in study.lost[0].reason
    assert study.arms[0].headlines[0].values == (4.0,)
    beat(tmp_path, runs[:1], started=time.time() + 1)
    assert only(read_state(tmp_path, time.time())).counts == RunCounts(finished=1, damaged=2, running=1)
    finish(tmp_path, runs[0])
    assert only(read_state(tmp_path, time.time())).counts == RunCounts(finished=2, damaged=2)


def test_a_damaged_record_that_was_not_planned_is_named_after_its_directory(tmp_path: Path) -> None:
    (run,) = specs(1, arm="a/b")
    finish(tmp_path, run)
    (tmp_path / run.directory / STATUS).write_text("{")
    study = only(read_state(tmp_path, 0.0))
    assert study.counts == RunCounts(damaged=1) and study.superseded == 0
    assert [(lost.arm, lost.seed) for lost in study.lost] == [("a/b", 0)]


def test_a_damaged_declaration_is_noted_and_hides_nothing_else(tmp_path: Path) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    (tmp_path / "warmup" / DECLARATION).write_text("{")
    state = read_state(tmp_path, 0.0)
    assert state.damaged and DECLARATION in only(state).notes[0] and only(state).counts.finished == 1
    assert only(state).arms[0].headlines[0].mean == 1.0


@pytest.mark.parametrize("planned", [True, False])
def test_runs_of_a_thin_directory_are_finished_until_a_thin_file_is_damaged(tmp_path: Path, planned: bool) -> None:
    runs, thin = specs(2), tmp_path / "thin"
    plan(tmp_path / "whole", runs)
    for run in runs:
        finish(tmp_path / "whole", run)
    write_thin_copy(Directory(tmp_path / "whole"), thin)
    if not planned:
        shutil.rmtree(thin / LOG)
    state = only(read_state(thin, 0.0))
    assert state.counts == RunCounts(finished=2) and not state.lost
    assert state.arms[0].headlines == only(read_state(tmp_path / "whole", 0.0)).arms[0].headlines
    (thin / runs[0].directory / "thin.json").write_text("{}")
    (thin / runs[1].directory / "thin.safetensors").write_bytes(b"")
    assert only(read_state(thin, 0.0)).counts == RunCounts(damaged=2)


def test_leftovers_are_no_runs(tmp_path: Path) -> None:
    runs = specs(1)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    directory = tmp_path / runs[0].directory
    for name in (f".{directory.name}.new.1", f"{directory.name}.part"):
        shutil.copytree(directory, directory.with_name(name))
    (tmp_path / "figures").mkdir()
    assert only(read_state(tmp_path, 0.0)).counts == RunCounts(finished=1)


def test_a_study_named_in_a_file_is_never_imported(tmp_path: Path) -> None:
    (run,) = specs(1, study="antigravity:fly")
    plan(tmp_path, [run])
    finish(tmp_path, run, {"height": 3.0, "word": "up", "sure": True, "missing": None})
    study = only(read_state(tmp_path, 0.0))
    assert "antigravity" not in sys.modules
    assert [(h.label, h.mean) for h in study.arms[0].headlines] == [("height", 3.0), ("missing", None)]


def until(root: Path, wanted: Callable[[RunCounts], bool], seconds: float = 30) -> LiveState:
    """Reads the state until the counts are as wanted."""
    deadline = time.monotonic() + seconds
    while True:
        state = read_state(root, time.time())
        if state.studies and wanted(only(state).counts):
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.02)


@pytest.mark.slow
def test_a_sweep_is_seen_running_missing_running_and_done(tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "runs"
    gate.mkdir()
    out.mkdir()
    command = [sys.executable, "-m", "kymograph", "run", "tests.studies.gated:Gated", "--seeds", "1", "2", "--quiet",
               "--dir", str(out), "--engine", "serial"]  # fmt: skip
    start = lambda: subprocess.Popen(command, env={**os.environ, GATE: str(gate)}, stdout=subprocess.DEVNULL)  # noqa: E731
    sweep = start()
    try:
        until(out, lambda c: c == RunCounts(running=1, waiting=1))
        sweep.send_signal(signal.SIGKILL)
        stopped = until(out, lambda c: c.missing == 1)
        assert only(stopped).counts == RunCounts(missing=1, waiting=1) and not stopped.ended
        assert [process.alive for process in only(stopped).processes] == [False] and only(stopped).eta is None
        sweep.wait()
        sweep = start()
        running = until(out, lambda c: c.running == 1)
        assert only(running).counts == RunCounts(running=1, waiting=1)
        (gate / "1").touch()
        until(out, lambda c: c == RunCounts(finished=1, running=1))
        deadline = time.monotonic() + 40  # the second heartbeat of the second run brings its message
        while not (at := only(read_state(out, time.time())).processes) or at[0].message != "halfway":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (at[0].arms, at[0].seeds, at[0].done, at[0].steps) == (("wait",), (2,), 5, 10)
        (gate / "2").touch()
        assert until(out, lambda c: c.finished == 2).ended
        assert sweep.wait() == 0 and read_state(out, time.time()).studies[0].processes == ()
        assert not (out / "gated" / ".running").exists()
    finally:
        sweep.kill()
        sweep.wait()


def test_arms_are_in_the_order_of_the_study_as_in_figures_and_report(tmp_path: Path) -> None:
    runs = [*specs(1, arm="b"), *specs(1, arm="c"), *specs(1, arm="a")]
    plan(tmp_path, runs)
    for run in runs:
        finish(tmp_path, run)
    write_declaration(tmp_path / "warmup", Declaration("warmup", version=1, arms=(Arm("c"), Arm("b"), Arm("a"))))
    assert [arm.name for arm in only(read_state(tmp_path, time.time())).arms] == ["c", "b", "a"]
    assert Store.open(tmp_path).arms == ("c", "b", "a")


def test_a_run_whose_process_was_killed_is_called_the_same_in_watch_and_in_the_list_of_runs(tmp_path: Path) -> None:
    (run,) = specs(1)
    plan(tmp_path, [run])
    beat(tmp_path, [run], dead_process())
    (named,) = named_runs(Directory(tmp_path))
    assert only(read_state(tmp_path, time.time())).counts == RunCounts(**{named.status: 1})


def shown(root: Path) -> str:
    """Returns what `kymograph watch --once` prints."""
    file = io.StringIO()
    watch(str(root), once=True, console=Console(file=file, width=200))
    return file.getvalue()


def test_headlines_and_the_traced_names_are_those_that_study_json_declares(tmp_path: Path) -> None:
    series = (
        SeriesDisplay("per_site", "P", "p"),
        SeriesDisplay("speed", "Speed", "m/s"),
        SeriesDisplay("loss", "L", "l"),
    )
    declare(tmp_path, headlines={"gain": "gain of warmup"}, series=series, arms=(Arm("a"),))
    runs = specs(2)
    plan(tmp_path, runs)
    for run in runs:
        steps = np.arange(10)
        values = {name: RunSeries(steps, np.linspace(0, run.seed + 1, 10)) for name in ("accuracy", "loss", "speed")}
        values["per_site"] = RunSeries(steps, np.ones((10, 2)), ("x", "y"))
        write_record(tmp_path, run, RunResult(values, {"another": 7.0, "gain": run.seed + 1.0}), {}, 1.0)
    assert "warmup" not in sys.modules
    (study,) = read_state(tmp_path, 0.0).studies
    (arm,) = study.arms
    assert [(one.key, one.label, one.mean) for one in arm.headlines] == [("gain", "gain of warmup", 1.5)]
    assert arm.trace is not None and arm.trace.name == "speed", "the first declared series with one value per step"
    text = shown(tmp_path)
    assert "gain of warmup" in text and "speed, latest run" in text and "another" not in text


def test_a_study_that_declares_nothing_shows_its_first_numbers_and_its_loss(tmp_path: Path) -> None:
    (run,) = specs(1)
    finish(tmp_path, run, {f"number_{index}": float(index) for index in range(9)})
    (study,) = read_state(tmp_path, 0.0).studies
    assert [one.label for one in study.arms[0].headlines] == [f"number_{index}" for index in range(5)]
    assert study.arms[0].trace is not None and study.arms[0].trace.name == "loss"
    assert traced_names(Declaration("x", headlines={"gain": "gain"})) == ("gain", "loss")


def test_studies_come_in_the_declared_order_with_unfinished_ones_first(tmp_path: Path) -> None:
    for name, order, run_all in (("b", 2, True), ("c", 1, True), ("d", 9, False), ("a", 3, True)):
        runs = specs(2, study=name)
        plan(tmp_path, runs)
        write_declaration(tmp_path / name, Declaration(name, version=1, order=order))
        for run in runs[: 2 if run_all else 1]:
            finish(tmp_path, run)
    assert [study.name for study in read_state(tmp_path, 0.0).studies] == ["d", "c", "b", "a"]


@pytest.mark.parametrize("old", [{"version": 1, "source": "new"}, {"version": 2, "source": "old"}, {"version": 2}])
def test_superseded_runs_are_shown_apart_and_count_nowhere(tmp_path: Path, old: dict) -> None:
    declare(tmp_path, version=2, source="new", headlines={"gain": "gain"})
    earlier = [RunSpec("warmup", "a", seed, {"lr": 0.1}, **{"source": None, **old}) for seed in range(4)]
    current = [RunSpec("warmup", "a", seed, {"lr": 0.1}, 2, "new") for seed in range(3)]
    plan(tmp_path, [*earlier, *current])
    for run in earlier[:2]:
        finish(tmp_path, run, {"gain": 1000.0})
    fail(tmp_path, earlier[2])  # and the last one was never computed
    finish(tmp_path, current[0], {"gain": 1.0})
    beat(tmp_path, current[1:2])
    (study,) = read_state(tmp_path, 0.0).studies
    assert study.counts == RunCounts(finished=1, running=1, waiting=1) and study.superseded == 4
    (arm,) = study.arms
    assert arm.name == "a" and arm.headlines[0].values == (1.0,) and study.lost == ()
    assert "superseded: 4 runs" in shown(tmp_path)
    assert study.processes[0].seeds == (1,)


def test_a_new_declaration_is_read_when_it_replaces_the_old_one(tmp_path: Path) -> None:
    (run,) = specs(1)
    plan(tmp_path, [run])
    finish(tmp_path, run, {"gain": 1.0, "loss": 2.0})
    declare(tmp_path, headlines={"gain": "first"})
    assert read_state(tmp_path, 0.0).studies[0].arms[0].headlines[0].label == "first"
    declare(tmp_path, headlines={"loss": "then"})
    assert read_state(tmp_path, 0.0).studies[0].arms[0].headlines[0].label == "then"


def test_a_record_is_read_once_until_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = specs(3)
    plan(tmp_path, runs)
    for run in runs:
        finish(tmp_path, run)
    directory = Directory(tmp_path)
    first = read_state(directory, 0.0)
    reads: list[Path] = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *how, **more: (reads.append(Path(path)), plain(path, *how, **more))[1])
    assert read_state(directory, 0.0) == first and reads == []
    finish(tmp_path, runs[0], {"spike_ratio": 50.0})
    (study,) = read_state(directory, 0.0).studies
    assert study.arms[0].headlines[0].values == (50.0, 2.0, 3.0)
    assert {path.parent.name for path in reads if path.suffix == ".json"} == {Path(runs[0].directory).name}


@pytest.fixture
def old_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every change be long enough ago that no other can have the same date."""
    monkeypatch.setattr(module, "_COARSE", 0)


@pytest.mark.usefixtures("old_news")
def test_a_directory_in_which_nothing_changes_is_not_read_again(tmp_path: Path) -> None:
    """Every look used to ask after four files of each run, twice a second, however long nothing happened."""
    runs = specs(3)
    plan(tmp_path, runs)
    finish(tmp_path, runs[0])
    watcher = Watcher(str(tmp_path))
    first = watcher.state(time.time())
    assert watcher.state(time.time()) is first
    finish(tmp_path, runs[1])
    second = watcher.state(time.time())
    assert second.studies[0].counts.finished == 2 and watcher.state(time.time()) is second
    plan(tmp_path, specs(2, arm="b"))
    assert watcher.state(time.time()).studies[0].counts.planned == 5


@pytest.mark.usefixtures("old_news")
def test_an_edit_in_place_shows_at_the_next_look_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = specs(1)
    plan(tmp_path, [run])
    finish(tmp_path, run)
    watcher = Watcher(str(tmp_path))
    watcher.state(time.time())
    path = tmp_path / run.directory / "summary.json"
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert not watcher.state(time.time()).damaged
    monkeypatch.setattr(module, "READ_AGAIN_AFTER", -1.0)
    assert watcher.state(time.time()).damaged


@pytest.mark.usefixtures("old_news")
def test_while_a_process_is_at_work_every_look_counts_but_reading_is_rationed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    path = beat(tmp_path, runs)
    watcher = Watcher(str(tmp_path))
    first = watcher.state(time.time())
    assert watcher.state(time.time()) is not first, "it may have died without a word"
    monkeypatch.setattr(module, "NEGLIGIBLE", -1.0)
    monkeypatch.setattr(module, "SHARE", 1e-9)
    rationed = watcher.state(time.time())
    os.utime(path)
    assert watcher.state(time.time()) is rationed


def test_two_changes_of_one_instant_are_both_seen(tmp_path: Path) -> None:
    runs = specs(2)
    plan(tmp_path, runs)
    watcher = Watcher(str(tmp_path))
    watcher.state(time.time())
    finish(tmp_path, runs[0])
    date = (tmp_path / "warmup").stat().st_mtime_ns
    assert watcher.state(time.time()).studies[0].counts.finished == 1
    finish(tmp_path, runs[1])
    os.utime(tmp_path / "warmup", ns=(date, date))
    assert watcher.state(time.time()).studies[0].counts.finished == 2
