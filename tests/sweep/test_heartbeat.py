"""The heartbeat of a process, and what is removed when none beats."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import kymograph
from kymograph._errors import KymographError
from kymograph._experiments.recorded_loop import record
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._io import processes
from kymograph._io.processes import Process
from kymograph._sweep import compute as computing
from kymograph._sweep import heartbeat as module
from kymograph._sweep.heartbeat import RUNNING, Heartbeat, read_beats
from kymograph._sweep.orders import Stack
from kymograph._sweep.progress import Follower
from tests.cli.command import write_coin
from tests.pictures.live.stage import beat, dead_process, specs
from tests.sweep.rigs import NOTES, copy_study


class Listener(Follower):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.steps, self.words = 0, ""

    def tick(self, steps: int) -> None:
        self.steps += steps

    def say(self, text: str) -> None:
        self.words = text


def test_a_heart_beats_passes_everything_on_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.01)
    runs = specs(3)
    listener = Listener()
    with Heartbeat(tmp_path, Stack(tuple(runs), (True, False, True), 50), listener) as heart:
        (first,) = read_beats(tmp_path / "warmup", time.time())
        assert first.alive and first.pid == os.getpid() and (first.done, first.steps) == (0, 50)
        assert first.runs == (runs[0].id, runs[2].id), "only runs that will be stored"
        for _ in range(4):
            heart.tick(5)
        heart.say("loss 0.1")
        deadline = time.monotonic() + 40
        while read_beats(tmp_path / "warmup", time.time())[0].words != "loss 0.1":
            assert time.monotonic() < deadline
        (last,) = read_beats(tmp_path / "warmup", time.time())
        assert last.done == 20 and last.updated > first.updated and last.started == first.started
    assert (listener.steps, listener.words) == (20, "loss 0.1")
    assert not (tmp_path / "warmup" / RUNNING).exists()


def test_steps_alone_write_nothing_in_the_training_thread(tmp_path: Path) -> None:
    with Heartbeat(tmp_path, Stack(tuple(specs(1)), (True,), 50), Listener()) as heart:
        stamp = next((tmp_path / "warmup" / RUNNING).iterdir()).stat().st_mtime_ns
        for _ in range(10_000):
            heart.tick(1)
        assert next((tmp_path / "warmup" / RUNNING).iterdir()).stat().st_mtime_ns == stamp


def test_a_beat_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "warmup").write_text("in the way")
    with Heartbeat(tmp_path, Stack(tuple(specs(1)), (True,), 50), Listener()) as heart:
        heart.tick(1)
    assert (tmp_path / "warmup").read_text() == "in the way"


def test_training_is_the_same_to_the_bit_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Heartbeat):
        def __enter__(self) -> Heartbeat:
            return self

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(module, "EVERY", 0.001)
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    study = str(copy_study(tmp_path / "code"))
    before = torch.get_rng_state()
    beating = kymograph.run(study, seeds=[1, 2], out=tmp_path / "a", quiet=True)
    assert torch.equal(torch.get_rng_state(), before)
    monkeypatch.setattr(computing, "Heartbeat", Silent)
    silent = kymograph.run(study, seeds=[1, 2], out=tmp_path / "b", quiet=True)
    for run, other in zip(beating, silent, strict=True):
        for name in ("arrays.safetensors", "summary.json"):
            assert (run.directory / name).read_bytes() == (other.directory / name).read_bytes()


def test_a_process_that_is_gone_is_not_alive(tmp_path: Path) -> None:
    runs = specs(1)
    directory = tmp_path / "warmup"
    now = time.time()
    gone = dead_process()
    path = beat(tmp_path, runs, gone)
    assert [one.alive for one in read_beats(directory, now)] == [False]
    path.unlink()
    path = beat(tmp_path, runs, born="another process had this number")
    assert [one.alive for one in read_beats(directory, now)] == [sys.platform != "linux"]
    path.unlink()
    zombie = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = beat(tmp_path, runs, zombie.pid)
    assert [one.alive for one in read_beats(directory, now)] == [True]
    zombie.kill()
    deadline = time.monotonic() + 40
    while sys.platform == "linux" and read_beats(directory, now)[0].alive:  # killed, and not yet waited for
        assert time.monotonic() < deadline
    zombie.communicate()
    assert [one.alive for one in read_beats(directory, now)] == [False]


def test_a_process_of_another_machine_is_judged_by_its_silence(tmp_path: Path) -> None:
    path = beat(tmp_path, specs(1), 1, host="elsewhere")
    now = path.stat().st_mtime
    assert [one.alive for one in read_beats(tmp_path / "warmup", now + 30)] == [True]
    assert [one.alive for one in read_beats(tmp_path / "warmup", now + 100)] == [False]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "asking for the time leaves no file"


def test_clocks_of_other_machines_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer whose clock was ten minutes behind used to be gone as soon as it started."""
    path = beat(tmp_path, specs(1), 1, host="elsewhere", updated=time.time() - 600)
    assert [one.alive for one in read_beats(tmp_path / "warmup", time.time())] == [True]
    monkeypatch.setattr(processes, "_offsets", {})
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 600)  # this machine's is ahead of the file system's
    assert [one.alive for one in read_beats(tmp_path / "warmup", time.time())] == [True]
    os.utime(path, (clock() - 90, clock() - 90))
    assert [one.alive for one in read_beats(tmp_path / "warmup", time.time())] == [False]


def test_what_is_no_beat_is_passed_over(tmp_path: Path) -> None:
    path = beat(tmp_path, specs(1))
    whole = json.loads(path.read_text())
    for number, content in enumerate(
        ["", "{", "[]", "{}", json.dumps({**whole, "pid": "x"}), json.dumps({**whole, "runs": 3}), '{"pid": 1e999}']
    ):
        path.with_name(f"{number}.json").write_text(content)
    path.with_name("8.json").mkdir()
    assert [one.pid for one in read_beats(tmp_path / "warmup", time.time())] == [os.getpid()]
    for pid in (0, -1, 2**40):
        path.write_text(json.dumps({**whole, "pid": pid}))
        assert [one.alive for one in read_beats(tmp_path / "warmup", time.time())] == [False]


def test_a_directory_that_goes_while_it_is_read_holds_no_beat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beat(tmp_path, specs(1))

    def gone(self: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "glob", gone)
    assert read_beats(tmp_path / "warmup", time.time()) == []


def test_the_next_process_buries_the_dead_and_spares_the_living(tmp_path: Path) -> None:
    runs = specs(2)
    dead = beat(tmp_path, runs[:1], dead_process())
    leftover = dead.with_name(f".{dead.name}.0.{dataclasses.replace(Process.this(), pid=2**22 + 1).mark}")
    leftover.write_text("")
    living = beat(tmp_path, runs[1:], os.getppid())
    with Heartbeat(tmp_path, Stack(tuple(runs[:1]), (True,), 1), Listener()):
        assert not dead.exists() and not leftover.exists() and living.exists()
    assert [path.name for path in living.parent.iterdir()] == [living.name]


def swept(tmp_path: Path, pid: int | None) -> tuple[Path, list[Path]]:
    """Stores a run, leaves what a kill would, and starts the sweep again; returns the study's directory and the run."""
    path = write_coin(tmp_path)
    options = ComputeOptions(tmp_path / "runs", "serial", 1, "cpu", quiet=True)
    (run,) = run_sweep(str(path), (1,), options, arms=["fair"]).store
    study = run.directory.parent
    part = study / f"{run.directory.name}.part"
    part.mkdir()
    (part / "resume.safetensors").write_bytes(b"old")
    (study / "fair-s2-0000000000000000.part").mkdir()  # of a run that is not asked for
    if pid is None:
        (study / RUNNING).mkdir()
    else:
        beat(tmp_path / "runs", [run.spec], pid=pid)
    assert run_sweep(str(path), (1,), options, arms=["fair"]).found == 1
    return study, [part, study / "fair-s2-0000000000000000.part"]


def test_what_a_stored_run_would_have_resumed_from_is_removed(tmp_path: Path) -> None:
    study, (own, other) = swept(tmp_path, None)
    assert not own.exists() and other.exists() and not (study / RUNNING).exists()


def test_the_beat_of_a_process_that_is_gone_does_not_count(tmp_path: Path) -> None:
    study, (own, _) = swept(tmp_path, dead_process())
    assert not own.exists() and not (study / RUNNING).exists()


def test_next_to_a_process_at_work_everything_stays(tmp_path: Path) -> None:
    study, (own, other) = swept(tmp_path, os.getppid())
    assert own.exists() and other.exists() and (study / RUNNING).exists()


@pytest.mark.parametrize("name", ["coin", "log", f"coin/{RUNNING}"])
@pytest.mark.parametrize("verb", ["run", "record"])
def test_a_link_in_the_output_that_leads_elsewhere_is_not_followed(tmp_path: Path, name: str, verb: str) -> None:
    """Records were written to where it leads, and what a dead process had left there was deleted."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "runs"
    elsewhere.mkdir()
    abandoned = [f".x.{kind}.{replace(Process.this(), pid=dead_process(), born='1').mark}" for kind in ("new", "0")]
    for left in abandoned:
        (elsewhere / left).mkdir()
    link = root / name
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(KymographError, match=f"{link} is a link that leads outside of {root}, which is not followed"):
        if verb == "run":
            run_sweep(str(write_coin(tmp_path)), (1,), ComputeOptions(root, quiet=True), arms=["fair"])
        else:
            record("coin", arm="fair", seed=1, out=root)
    assert sorted(os.listdir(elsewhere)) == sorted(abandoned)


def test_a_link_that_stays_in_the_output_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real" / "here").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("real")
    (tmp_path / "runs" / "coin").symlink_to("here")
    done = run_sweep(str(write_coin(tmp_path)), (1,), ComputeOptions(tmp_path / "runs", quiet=True), arms=["fair"])
    assert done.computed == 1 and (tmp_path / "real" / "here" / "study.json").exists()
