from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.pictures.live.reading import read_state
from kymograph.runs import locating as finding
from kymograph.runs.archive import Archive, read_archive
from kymograph.runs.locating import find_runs
from tests.runs.test_typed_record import make


@pytest.mark.parametrize("call", ["scandir", "lstat"])
def test_a_study_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, call: str
) -> None:
    """The tests may run as root, whom no permission stops: the system calls fail instead."""
    make(tmp_path)
    (tmp_path / "lab").rename(tmp_path / "other")
    make(tmp_path)
    real = getattr(os, call)

    def denied(path: str, *more: object, **named: object) -> object:
        if str(path).startswith(str(tmp_path / "other")):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **named)

    monkeypatch.setattr(finding.os, call, denied)
    archive = read_archive(tmp_path)
    assert len(archive.store) == 2 and archive.unreadable == ("cannot read other: Permission denied",)
    assert "left out: cannot read other: Permission denied" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="no permission stops root")
def test_permissions_on_disk(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "lab").chmod(0o400)
    try:
        assert Archive.open(tmp_path).unreadable
    finally:
        (tmp_path / "lab").chmod(0o700)


@pytest.mark.parametrize("name", ["x" * 5000, "absent"])
def test_no_directory_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(KymographError, match="there is no directory"):
        find_runs(tmp_path / name)


def test_links_in_a_circle_hide_no_run(tmp_path: Path) -> None:
    """Asking whether one is a directory raises: the whole directory used to be given up, its listing left open."""
    make(tmp_path)
    for directory in (tmp_path, tmp_path / "lab"):
        (directory / "a-circle").symlink_to(directory / "a-circle")
    found = find_runs(tmp_path)
    assert len(found.directories) == 2 and not found.unreadable
    (state,) = read_state(str(tmp_path), time.time()).studies
    assert state.counts.finished == 2
