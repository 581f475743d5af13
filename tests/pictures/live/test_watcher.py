from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kymograph.pictures.live import reading as module
from kymograph.pictures.live.reading import Watcher
from tests.pictures.live.stage import beat, finish, plan, specs


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
