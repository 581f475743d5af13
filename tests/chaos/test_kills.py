"""Killed at every write point, then run again: every bit as if nothing had happened, and nothing left behind.

KYMOGRAPH_CHAOS_KILLS sets how many kills there are in all; `make chaos` asks for 500.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.points import forked
from tests.chaos.scenes import SCENES, Scene, fingerprint, leftovers, set_out, whole

KILLS = int(os.environ.get("KYMOGRAPH_CHAOS_KILLS", "45"))
SMALL = 150
"""Scenes with fewer points than this are killed at every one of them before the large ones get more."""


def chosen(points: int, share: int) -> list[int]:
    """Returns ``share`` of the numbers from 1 to ``points``, evenly spread, or all if there are not so many."""
    count = min(points, share)
    return sorted({1 + round(index * (points - 1) / max(count - 1, 1)) for index in range(count)})


def share_of(points: int) -> int:
    """Returns how many kills a scene gets."""
    fair = max(3, KILLS // len(SCENES))
    return fair if fair < 30 else points if points < SMALL else 3 * fair


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_kill_at_any_write_point_changes_nothing(scene: Scene, stage: Path, roots: tuple[Path, Path]) -> None:
    expected, points = whole(scene, stage, roots)
    assert points > 0 and not leftovers(roots[0]) and not leftovers(roots[1])
    kills = chosen(points, share_of(points))
    for point in kills:
        set_out(scene, stage, roots[0])
        killed = forked(scene.words, roots[0], roots, point)
        assert killed.code == -signal.SIGKILL, (point, killed.out)
        again = forked(scene.words, roots[0], roots)
        assert again.code == 0, (point, again.out)
        found = fingerprint(roots[0])
        different = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
        assert not different, (point, different)
        left = leftovers(roots[0]) + leftovers(roots[1])
        assert not left, (point, left)
    print(f"{scene.name}: {len(kills)} kills at {points} write points")


@pytest.mark.slow
def test_killed_again_and_again(stage: Path, roots: tuple[Path, Path]) -> None:
    """A sweep that is killed at a later point each time ends like one that was never killed."""
    scene = SCENES[0]
    expected, points = whole(scene, stage, roots)
    set_out(scene, stage, roots[0])
    for point in chosen(points, 6):
        forked(scene.words, roots[0], roots, point)
    assert forked(scene.words, roots[0], roots).code == 0
    assert fingerprint(roots[0]) == expected and not leftovers(roots[0])
