"""The examples run, are short, and are shown in the gallery with their pictures; their commands work as written."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kymograph as ky
from tests.cli.command import call

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
QUICK = {
    "attention_entropy": ["--layers", "1"],
    "conv_dfa": ["--width", "4"],
    "dead_relus": ["--depth", "2"],
    "warmup_sharpness": ["--every", "3"],
}
"""Settings with which an example takes no time."""
LOOPS = ["recorded_loop"]


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What makes the gallery's page."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    return importlib.import_module("gallery")


def test_there_is_a_test_for_every_example() -> None:
    assert {path.stem for path in EXAMPLES} == {*QUICK, *LOOPS}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_what_to_type_and_what_is_shown(path: Path, gallery: ModuleType) -> None:
    assert len(path.read_text().splitlines()) < 60
    example = gallery.read_example(path)
    assert example.title.endswith((".", "?")) and example.caption.endswith(".")
    assert example.picture.stat().st_size < 150_000
    text = gallery.markdown(example)
    for part in (f"images/{example.figure}.png", *example.commands, f"examples/{path.name}", "import kymograph as ky"):
        assert part in text
    if path.stem not in LOOPS:
        assert f"kymograph run examples/{path.name} --n-seeds 10" in example.commands


def test_a_new_example_appears_in_the_gallery_by_itself(
    gallery: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").mkdir()
    commands = "kymograph run examples/new.py\nkymograph figure new-curves"
    text = f'"""Does it appear? Indeed.\n\n{commands}\n\nA line.\n"""\nx = 1\n'
    (tmp_path / "examples" / "new.py").write_text(text)
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    page = [(ROOT / "docs" / "gallery.md").read_text()]
    assert gallery.MARK in page[0]
    gallery._insert(None, "gallery", page)
    assert "### Does it appear?\n\nIndeed. A line.\n\n```\nkymograph run examples/new.py\n" in page[0]
    assert "```python\nx = 1\n```" in page[0] and "new-curves.png" not in page[0], "its picture is not drawn yet"


def test_every_network_is_in_the_gallery_with_a_small_picture_and_two_lines(gallery: ModuleType) -> None:
    page = [(ROOT / "docs" / "gallery.md").read_text()]
    gallery._insert(None, "gallery", page)
    for name, study in gallery.STUDIES.items():
        assert 10_000 < gallery.network_picture(name).stat().st_size < 150_000
        assert f"images/network-{name}.png" in page[0] and f"kymograph figure {name}-{study.figure}" in page[0]
        assert study.caption.endswith(".") and 40 < len(study.caption) < 260
    pictures = {path.stem.removeprefix("network-") for path in (ROOT / "docs" / "images").glob("network-*.png")}
    assert pictures == set(gallery.STUDIES)


@pytest.mark.slow
def test_the_networks_of_the_gallery_train_and_their_figures_are_drawn(tmp_path: Path, gallery: ModuleType) -> None:
    for name, study in gallery.STUDIES.items():
        gallery.record(name, str(tmp_path / name), seeds=1, steps=3)
        store = ky.Store.open(tmp_path / name)
        assert set(store.finished.arms) == set(study.arms)
        ky.figure(gallery.network_figure(name), store)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_study_runs_and_is_drawn(name: str, tmp_path: Path, gallery: ModuleType) -> None:
    path = ROOT / "examples" / f"{name}.py"
    runs, figure = str(tmp_path / "runs"), gallery.read_example(path).figure
    options = ["--seeds", "1", "--steps", "6", *QUICK[name], "--dir", runs, "--workers", "1"]
    assert call("run", str(path), *options) == 0
    store = ky.Store.open(runs)
    assert store.finished and not store.failed
    assert call("figure", figure, "--dir", runs, "-o", str(tmp_path)) == 0
    assert (tmp_path / f"{figure}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_commands_of_an_example_work_as_written(
    path: Path, tmp_path: Path, gallery: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in gallery.read_example(path).commands:
        program, *words = shlex.split(command)
        if program == "python":
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, *words, "--steps", "6"], check=True, env=environment)
            continue
        options = ["--steps", "6", *QUICK[path.stem], "--workers", "1", "--quiet"] if words[0] == "run" else []
        assert call(*words, *options) == 0, command
    store = ky.Store.open("runs")
    assert len(store.finished.seeds) == 10 and not store.failed
