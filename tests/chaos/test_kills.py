"""Killed at every write point, then run again: every bit as if nothing had happened, and nothing left behind.

KYMOGRAPH_CHAOS_KILLS sets about how many kills there are in all. From 500 on, which `make chaos` asks for, commands
with fewer than 150 points are killed at every one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._cli.arguments import FORMATS
from kymograph._cli.main import VERBS
from tests.chaos.points import forked
from tests.chaos.scenes import PRINTING, SCENES, Scene, fingerprint, leftovers, set_out, whole

KILLS = int(os.environ.get("KYMOGRAPH_CHAOS_KILLS", "0"))
EVERY_POINT, SMALL = 500, 150


def chosen(points: int, share: int) -> list[int]:
    """Returns ``share`` of the numbers from 1 to ``points``, evenly spread, or all if there are not so many."""
    count = min(points, share)
    return sorted({1 + round(index * (points - 1) / max(count - 1, 1)) for index in range(count)})


def share_of(scene: Scene, points: int) -> int:
    """Returns how many kills a scene with so many points gets."""
    fair = KILLS // len(SCENES)
    if KILLS >= EVERY_POINT:
        return points if points < SMALL else 2 * fair
    return max(fair, 2 if scene.costly else 3)


@pytest.fixture(scope="module")
def kills() -> Iterator[list[int]]:
    """How many kills each scene got."""
    counts: list[int] = []
    yield counts
    print(f"{sum(counts)} kills in {len(counts)} scenes")


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_kill_at_any_write_point_changes_nothing(
    scene: Scene, stage: Path, roots: tuple[Path, Path], kills: list[int]
) -> None:
    expected, points = whole(scene, stage, roots)
    assert points > 0 and not leftovers(roots[0]) and not leftovers(roots[1])
    tried = chosen(points, share_of(scene, points))
    for point in tried:
        set_out(scene, stage, roots[0])
        killed = scene.play(roots, point)
        assert killed.code == -signal.SIGKILL, (point, killed.out)
        again = scene.play(roots)
        assert again.code == 0, (point, again.out)
        found = fingerprint(roots[0])
        different = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
        assert not different, (point, different)
        left = leftovers(roots[0]) + leftovers(roots[1])
        assert not left, (point, left)
    kills.append(len(tried))
    print(f"{scene.name}: {len(tried)} kills at {points} write points")


@pytest.mark.slow
def test_killed_again_and_again(stage: Path, roots: tuple[Path, Path]) -> None:
    """A sweep that is killed at a later point each time ends like one that was never killed."""
    scene = SCENES[0]
    expected, points = whole(scene, stage, roots)
    set_out(scene, stage, roots[0])
    for point in chosen(points, 6):
        scene.play(roots, point)
    assert scene.play(roots).code == 0
    assert fingerprint(roots[0]) == expected and not leftovers(roots[0])


def test_every_verb_and_every_format_is_played() -> None:
    played = {scene.words[0] for scene in SCENES} | {words[0] for words in PRINTING}
    assert played == set(VERBS.names())
    assert {scene.words[3] for scene in SCENES if scene.words[0] == "export"} == set(FORMATS.names())


@pytest.mark.slow
@pytest.mark.parametrize("words", PRINTING, ids=lambda words: words[0])
def test_a_verb_that_prints_writes_nothing(words: tuple[str, ...], stage: Path, roots: tuple[Path, Path]) -> None:
    set_out(Scene("", words), stage, roots[0])
    before = fingerprint(roots[0])
    ended = forked(words, roots[0], roots)
    assert (ended.code, ended.points) == (0, 0), ended.out
    assert fingerprint(roots[0]) == before
