"""Workers that are killed, and sweeps that are killed while workers are at work: nothing lost, nothing left behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.chaos.scenes import Scene, fingerprint, leftovers, set_out
from tests.chaos.test_kills import EVERY_POINT, KILLS, chosen
from tests.chaos.worker_points import Watch

SHARE = 12 if KILLS >= EVERY_POINT else 2
PATIENCE = 20.0


def scene(workers: int) -> Scene:
    """Returns a sweep on worker processes."""
    words = ("run", "coin.py", "--quiet", "--engine", "processes", "--workers", str(workers), "--seeds", "1", "2")
    return Scene(f"{workers} workers", (*words, "--dir", "runs"), ())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_costs_its_stack_until_the_next_try(
    workers: int, stage: Path, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    played, tally = scene(workers), str(tmp_path / "tally")
    watch = Watch(str(roots[0]), tally)
    set_out(played, stage, roots[0])
    whole = played.play(roots, before=watch.begin)
    assert whole.code == 0 and watch.points > 20 and not watch.killed, whole.out
    expected = fingerprint(roots[0])
    tried = chosen(watch.points // workers, SHARE)
    killed = 0
    for point in tried:
        watch = Watch(str(roots[0]), tally, point)
        set_out(played, stage, roots[0])
        ended = played.play(roots, before=watch.begin)
        # Workers that wait for one another's locks pass a few points more or fewer each time.
        assert (watch.killed or watch.points < point * workers) and not watch.living(), point
        killed += watch.killed
        # A worker that had stored all its runs, and was about to say so, costs nothing.
        assert ended.code == 0 or (ended.code == 1 and "the worker process died (signal 9)" in ended.out), ended.out
        again = played.play(roots)
        assert again.code == 0, (point, again.out)
        assert fingerprint(roots[0]) == expected, point
        assert not leftovers(roots[0]) + leftovers(roots[1]), point
    assert killed
    print(f"{workers} workers: {killed} kills")


@pytest.mark.slow
def test_a_killed_sweep_takes_its_workers_with_it(stage: Path, roots: tuple[Path, Path], tmp_path: Path) -> None:
    played, watch = scene(2), Watch(str(roots[0]), str(tmp_path / "tally"))
    set_out(played, stage, roots[0])
    whole = played.play(roots, before=watch.begin)
    assert whole.code == 0, whole.out
    expected = fingerprint(roots[0])
    tried = chosen(whole.points, SHARE)
    for point in tried:
        set_out(played, stage, roots[0])
        killed = played.play(roots, point, before=watch.begin)
        assert killed.code == -signal.SIGKILL, (point, killed.out)
        deadline = time.monotonic() + PATIENCE
        while watch.living() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not watch.living(), point
        again = played.play(roots)
        assert again.code == 0, (point, again.out)
        assert fingerprint(roots[0]) == expected and not leftovers(roots[0]) + leftovers(roots[1]), point
    print(f"a sweep and its workers: {len(tried)} kills")
