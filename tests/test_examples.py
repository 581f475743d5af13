"""The examples run, are short, and are shown in the gallery with their pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kymograph as ky
from tests.cli.command import call

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
STUDIES = {
    "attention_entropy": ("attention-kymograph", ["--layers", "1"]),
    "conv_dfa": ("conv-dfa-kymograph", ["--width", "4"]),
    "dead_relus": ("dead-relus-kymograph", ["--depth", "2"]),
    "warmup_sharpness": ("warmup-sharpness-curves", ["--every", "3"]),
}
LOOPS = {"recorded_loop": "optimizers-kymograph"}


def test_there_is_a_test_for_every_example() -> None:
    assert {path.stem for path in EXAMPLES} == {*STUDIES, *LOOPS}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_in_the_gallery_with_its_picture(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    figure = LOOPS.get(path.stem) or STUDIES[path.stem][0]
    assert f"examples/{path.name}" in gallery and f"figure {figure}" in gallery and f"images/{figure}.png" in gallery
    assert (ROOT / "docs" / "images" / f"{figure}.png").stat().st_size < 150_000


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_and_is_drawn(name: str, tmp_path: Path) -> None:
    figure, options = STUDIES[name]
    runs, path = str(tmp_path / "runs"), str(ROOT / "examples" / f"{name}.py")
    assert call("run", path, "--seeds", "1", "--steps", "6", *options, "--out", runs, "--workers", "1") == 0
    store = ky.Store.open(runs)
    assert store.finished and not store.failed
    assert call("figure", figure, "--from", runs, "--out", str(tmp_path)) == 0
    assert (tmp_path / f"{figure}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_recorded_and_drawn(name: str, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", runs, "--steps", "6", "--seeds", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    assert len(ky.Store.open(runs).finished) == 2
    assert call("figure", LOOPS[name], "--from", runs, "--out", str(tmp_path)) == 0
