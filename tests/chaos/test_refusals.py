"""Full disks, no inodes, nothing writable, little memory, clocks that jump, two hosts: one sentence, or no trace."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._io import processes
from kymograph._sweep.heartbeat import RUNNING
from tests.chaos.points import FULL, NO_INODES, READ_ONLY, Ended, forked, little_memory, refuse
from tests.chaos.scenes import SCENES, Scene, fingerprint, leftovers, set_out, whole
from tests.chaos.test_kills import EVERY_POINT, KILLS, chosen

# What SQLite is refused, Python does not see: for MLflow there are real file systems below.
IN_PYTHON = [scene for scene in SCENES if not scene.name.startswith("mlflow")]
PLAYED = IN_PYTHON if KILLS >= EVERY_POINT else [scene for scene in IN_PYTHON if not scene.costly][::2]
SHARE = 6 if KILLS >= EVERY_POINT else 2
RUN, MLFLOW = SCENES[0], next(scene for scene in SCENES if scene.name == "mlflow")
GIGABYTE = 2**30


def one_sentence(ended: Ended) -> bool:
    """Says whether a command ended with a sentence, and not with a traceback."""
    said = [line for line in ended.out.splitlines() if line.startswith("kymograph: ")]
    return ended.code == 1 and len(said) == 1 and "sorry" not in said[0] and "Traceback" not in ended.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [FULL, NO_INODES, READ_ONLY], ids=["full", "no inodes", "read-only"])
@pytest.mark.parametrize("scene", PLAYED, ids=lambda scene: scene.name)
def test_what_the_disk_refuses_is_one_sentence_and_costs_nothing(
    scene: Scene, number: int, stage: Path, roots: tuple[Path, Path]
) -> None:
    expected, points = whole(scene, stage, roots)
    for point in chosen(points, SHARE):
        set_out(scene, stage, roots[0])
        refused = scene.play(roots, point, refuse(number), forever=True)
        # Beats, sweeping up and removing are courtesies: a command may do without them.
        assert refused.code == 0 or one_sentence(refused), (point, refused.code, refused.out)
        again = scene.play(roots)
        assert again.code == 0, (point, again.out)
        assert fingerprint(roots[0]) == expected and not leftovers(roots[0]), point


@contextlib.contextmanager
def mounted(directory: Path, options: str) -> Iterator[Path]:
    """Mounts a file system of its own on ``directory``; skips where that is not allowed."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let root mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "then"),
    [("size=200k", "remount,size=64m"), ("nr_inodes=48", "remount,nr_inodes=4000"), ("size=64m", "")],
    ids=["full", "no inodes", "read-only"],
)
@pytest.mark.parametrize("scene", [RUN, MLFLOW], ids=lambda scene: scene.name)
def test_a_real_file_system_that_refuses(scene: Scene, options: str, then: str, stage: Path, tmp_path: Path) -> None:
    roots = tmp_path / "whole", tmp_path / "temporary"
    roots[1].mkdir()
    expected, _ = whole(scene, stage, roots)
    with mounted(tmp_path / "small", options) as directory:
        set_out(scene, stage, tmp_path / "copy")
        shutil.copytree(tmp_path / "copy", directory, dirs_exist_ok=True)
        fill(directory, options)
        if not then:
            subprocess.run(["mount", "-o", "remount,ro", str(directory)], check=True)
        refused = forked(scene.line(directory), directory)
        assert one_sentence(refused), refused.out
        subprocess.run(["mount", "-o", then or "remount,rw", str(directory)], check=True)
        (directory / "filling").unlink(missing_ok=True)
        for link in directory.glob("link-*"):
            link.unlink()
        again = forked(scene.line(directory), directory)
        assert again.code == 0, again.out
        assert fingerprint(directory) == expected and not leftovers(directory)


def fill(directory: Path, options: str) -> None:
    """Leaves 20 kB, or one inode, on a file system that is small in that respect."""
    free = os.statvfs(directory)
    if options.startswith("size=200k"):
        (directory / "filling").write_bytes(b"x" * max(free.f_bavail * free.f_frsize - 20_000, 0))
    elif options.startswith("nr_inodes"):
        for number in range(max(free.f_favail - 1, 0)):
            (directory / f"link-{number}").symlink_to("nowhere")


@pytest.mark.slow
def test_a_directory_without_permission_is_one_sentence(stage: Path, roots: tuple[Path, Path]) -> None:
    set_out(RUN, stage, roots[0])
    roots[0].chmod(0o555)
    try:
        ended = forked(RUN.words, roots[0], before=nobody if os.geteuid() == 0 else None)
    finally:
        roots[0].chmod(0o755)
    assert one_sentence(ended) and "ermission" in ended.out, ended.out


def nobody() -> None:
    """Gives up root, who may write anywhere."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.slow
@pytest.mark.parametrize("scene", PLAYED, ids=lambda scene: scene.name)
def test_a_gigabyte_of_memory_is_enough(scene: Scene, stage: Path, roots: tuple[Path, Path]) -> None:
    expected, _ = whole(scene, stage, roots)
    set_out(scene, stage, roots[0])
    ended = scene.play(roots, before=little_memory(GIGABYTE))
    if scene.name == "parquet" and one_sentence(ended):
        return  # Arrow reserves as much at a time, which it then does not use
    assert ended.code == 0 and fingerprint(roots[0]) == expected, ended.out


@pytest.mark.slow
def test_too_little_memory_is_one_sentence(stage: Path, roots: tuple[Path, Path]) -> None:
    """The study asks for more than there is: its run fails with a reason, and the next one is computed."""
    set_out(RUN, stage, roots[0])
    study = roots[0] / "coin.py"
    hungry = "        hoard = np.ones(2**28) if spec.seed == 1 else None\n        step = np.arange"
    study.write_text(study.read_text().replace("        step = np.arange", hungry))
    ended = RUN.play(roots, before=little_memory(GIGABYTE))
    assert ended.code == 1 and "MemoryError" in ended.out and "Traceback" not in ended.out, ended.out
    assert len(list(roots[0].glob("runs/coin/*-s2-*/summary.json"))) == 2


def jumping(seed: int) -> None:
    """Makes the clock jump by up to ten years, back and forth, whenever it is asked."""
    draw, real = random.Random(seed), time.time
    gmtime, strftime = time.gmtime, time.strftime
    time.time = lambda: real() + draw.uniform(-3e8, 3e8)
    time.gmtime = lambda at=None: gmtime(time.time() if at is None else at)  # type: ignore[assignment]
    time.strftime = lambda form, at=None: strftime(form, time.gmtime() if at is None else at)  # type: ignore[assignment]


@pytest.mark.slow
@pytest.mark.parametrize("scene", PLAYED, ids=lambda scene: scene.name)
def test_a_clock_that_jumps_changes_no_number(scene: Scene, stage: Path, roots: tuple[Path, Path]) -> None:
    expected, points = whole(scene, stage, roots)
    for point in (None, points // 2):
        set_out(scene, stage, roots[0])
        if point:
            scene.play(roots, point, before=lambda: jumping(1))
        ended = scene.play(roots, before=lambda: jumping(2))
        assert ended.code == 0, ended.out
        assert fingerprint(roots[0]) == expected and not leftovers(roots[0])


def called(host: str) -> None:
    """Makes this process one of another host."""
    platform.node = lambda: host
    processes._host.cache_clear()
    processes._table.cache_clear()
    processes._process.cache_clear()


@pytest.mark.slow
def test_two_hosts_share_a_directory_and_one_is_killed(stage: Path, roots: tuple[Path, Path]) -> None:
    """Whatever the other host is killed at, this one ends with the same numbers and leaves what may be alive alone."""
    expected, points = whole(RUN, stage, roots)
    for point in chosen(points, 4):
        set_out(RUN, stage, roots[0])
        killed = threading.Thread(target=RUN.play, args=(roots, point), kwargs={"before": lambda: called("host-two")})
        killed.start()
        mine = RUN.play(roots, before=lambda: called("host-one"))
        killed.join()
        assert mine.code == 0, mine.out
        again = RUN.play(roots, before=lambda: called("host-one"))
        assert again.code == 0, again.out
        found = {name: value for name, value in fingerprint(roots[0]).items() if "/." not in name}
        assert found == expected, point
        left = [name for name in leftovers(roots[0]) if Path(name).name != RUNNING]
        assert all("host-two" in name for name in left), left  # for a day, it may still be at work
