from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._io import processes
from kymograph._io.processes import ABANDONED, Process, owner, remove_abandoned_files, temporary_name
from kymograph._io.writing import one_at_a_time, write_atomically
from kymograph._runs.log import Log
from kymograph._runs.record import is_finished
from kymograph._sweep.heartbeat import RUNNING, read_beats
from tests.pictures.live.stage import finish, specs

GONE = dataclasses.replace(Process.this(), pid=2**22 + 1)
ELSEWHERE = dataclasses.replace(Process.this(), host="elsewhere", table="0" * 8, pid=2**22 + 1)


def leave(directory: Path, process: Process, age: float = 0.0) -> Path:
    """Leaves a half-written record of ``process``, as old as that."""
    path = directory / f".0123456789abcdef.new.{process.mark}"
    path.mkdir(parents=True)
    (path / "config.json").write_text("{")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_process_is_named_so_that_no_other_has_its_name() -> None:
    me = Process.this()
    assert Process.of_mark(me.mark) == me and me.is_alive(silent=1e9)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", me.mark) and len(me.mark) < 100
    assert owner(temporary_name(Path(), "plain-s1-0123", "new")) == me
    for name in ("a", ".a", ".a.b", ".a.new.17", f"a.{me.mark}"):
        assert owner(Path(name)) is None
    if sys.platform == "linux":
        assert not dataclasses.replace(me, born="1").is_alive(0.0), "an earlier process of the same number"


def test_leftovers_go_by_their_owner_here_and_by_their_age_elsewhere(tmp_path: Path) -> None:
    """A process on another host used to be looked up in this host's table, and its record deleted while it wrote."""
    kept = [leave(tmp_path, Process.this()), leave(tmp_path, ELSEWHERE, ABANDONED - 60)]
    swept = [leave(tmp_path, GONE), leave(tmp_path, dataclasses.replace(ELSEWHERE, pid=1), ABANDONED + 60)]
    (tmp_path / ".hidden").write_text("not ours")
    remove_abandoned_files(tmp_path)
    assert all(path.exists() for path in kept) and not any(path.exists() for path in swept)
    assert (tmp_path / ".hidden").exists()
    remove_abandoned_files(tmp_path / "absent")


def test_storing_runs_sweeps_once_and_not_at_every_record(tmp_path: Path) -> None:
    """Looking for leftovers at every record made ten thousand records cost a hundred million names."""
    first, second = specs(2)
    left = leave(tmp_path / "warmup", GONE)
    finish(tmp_path, first)
    assert not left.exists() and is_finished(tmp_path, first)
    left = leave(tmp_path / "warmup", GONE)
    finish(tmp_path, second)
    assert left.exists() and is_finished(tmp_path, second)


def test_a_file_is_whole_or_as_it_was_and_its_leftover_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("before")
    seen = []
    replace = os.replace

    def look(source: str | Path, target: str | Path) -> None:
        seen.append(owner(Path(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    write_atomically(path, b"after")
    assert seen == [Process.this()] and path.read_text() == "after" and len(list(tmp_path.iterdir())) == 1


def test_the_lock_of_a_process_that_is_gone_is_taken_away(tmp_path: Path) -> None:
    for process in (GONE, ELSEWHERE):
        os.symlink(process.mark, tmp_path / ".lock")
        if process is ELSEWHERE:
            old = time.time() - processes.SILENCE - 5
            os.utime(tmp_path / ".lock", (old, old), follow_symlinks=False)
        with one_at_a_time(tmp_path):
            assert os.readlink(tmp_path / ".lock") == Process.this().mark
        assert list(tmp_path.iterdir()) == []


CAN_UNSHARE = ["unshare", "-p", "-f", "--mount-proc", "true"]


@pytest.fixture(scope="module")
def container() -> list[str]:
    """Returns the words that start a command in a PID namespace of its own."""
    try:
        possible = subprocess.run(CAN_UNSHARE, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        possible = False
    if not possible:
        pytest.skip("a PID namespace of one's own takes Linux and root")
    return [*CAN_UNSHARE[:-1], sys.executable, "-c"]


WRITER = """
import os, sys, time
from pathlib import Path
from kymograph._runs.log import Log
from kymograph._sweep.heartbeat import Heartbeat
from kymograph._sweep.orders import Stack
from tests.pictures.live.stage import finish, specs
root, name = Path(sys.argv[1]), sys.argv[2]
class Nobody:
    def tick(self, steps): pass
    def say(self, text): pass
rename = os.rename
def slowly(source, target):
    (root / f"{name}.ready").touch()
    while not (root / f"{name}.go").exists():
        time.sleep(0.01)
    rename(source, target)
os.rename = slowly
Log.read(root).append("note", {"writer": name})
from kymograph._io.processes import remove_abandoned_files
remove_abandoned_files(root / "warmup")
with Heartbeat(root, Stack(tuple(specs(1)), (True,), 50), Nobody()):
    finish(root, specs(1)[0])
"""


def wait_for(path: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.fixture
def two_containers(container: list[str], tmp_path: Path) -> Iterator[list[subprocess.Popen]]:
    """Two processes of the same number, each in its own container, at the same run, stopped before the last step."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")])}
    started: list[subprocess.Popen] = []
    for name in "ab":
        words = [*container, WRITER, str(tmp_path), name]
        started.append(subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True))
        wait_for(tmp_path / f"{name}.ready", started[-1])
    yield started
    for name in "ab":
        (tmp_path / f"{name}.go").touch()
    for process in started:
        process.communicate(timeout=120)


def test_containers_on_one_directory_leave_each_others_work_alone(
    two_containers: list[subprocess.Popen], tmp_path: Path
) -> None:
    """Each has process 1, and neither can see the other's: beats used to collide, and half-written records to go."""
    study = tmp_path / "warmup"
    assert len(list(study.glob(".*.new.*"))) == 2, "the second did not sweep up what the first was writing"
    beats = read_beats(study, time.time())
    assert [(beat.pid, beat.alive) for beat in beats] == [(1, True), (1, True)]
    for name in "ba":
        (tmp_path / f"{name}.go").touch()
    assert [(process.communicate(timeout=120)[1], process.returncode) for process in two_containers] == [("", 0)] * 2
    assert is_finished(tmp_path, specs(1)[0]) and not (study / RUNNING).exists()
    assert [path.name for path in study.iterdir()] == [Path(specs(1)[0].directory).name]
    log = Log.read(tmp_path)
    assert [entry.content["writer"] for entry in log.entries.values()] == ["a", "b"] and not log.problems


def test_a_container_that_was_killed_is_gone_after_a_minute_of_silence(
    two_containers: list[subprocess.Popen], tmp_path: Path
) -> None:
    two_containers[0].kill()
    two_containers[0].wait()
    now = time.time()
    assert len(read_beats(tmp_path / "warmup", now)) == 2
    beats = list((tmp_path / "warmup" / RUNNING).glob("*.json"))
    for path in beats:
        os.utime(path, (now - 61, now - 61))
    assert [beat.alive for beat in read_beats(tmp_path / "warmup", now)] == [False, False]


def test_writing_a_file_sweeps_up_what_killed_processes_left_next_to_it(tmp_path: Path) -> None:
    """Exports, reports and the log used to leave their temporary files for good."""
    gone = Process(Process.this().host, Process.this().table, 2**22 + 1, "1")
    left = tmp_path / f".report.html.3.{gone.mark}"
    other = tmp_path / ".bashrc"
    left.write_text("half")
    other.write_text("mine")
    write_atomically(tmp_path / "report.html", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", "report.html"]


def test_a_temporary_directory_is_private_and_sweeps_up_those_of_killed_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = Process(Process.this().host, Process.this().table, 2**22 + 1, "1")
    (tmp_path / f".kymograph-bundle.abc.{gone.mark}").mkdir()
    with processes.temporary_directory("bundle") as directory:
        assert [path.name for path in tmp_path.iterdir()] == [Path(directory).name]
        assert Path(directory).stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())
