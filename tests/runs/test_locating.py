"""Where runs are found, and copies that count once."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._pictures.live.reading import read_state
from kymograph._runs import locating as finding
from kymograph._runs.directory import Directory, read_directory
from kymograph._runs.locating import find_runs
from kymograph._runs.store import Store
from tests.cli.command import call
from tests.runs.test_record_forged import make


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
    archive = read_directory(tmp_path)
    assert len(archive.store) == 2 and archive.unreadable == ("cannot read other: Permission denied",)
    assert "left out: cannot read other: Permission denied" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="no permission stops root")
def test_permissions_on_disk(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "lab").chmod(0o400)
    try:
        assert Directory(tmp_path).unreadable
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


@pytest.mark.parametrize("where", ["backup", "a-backup", "suffix", "prefix"])
def test_a_backup_copy_counts_once(tmp_path: Path, where: str, capsys: pytest.CaptureFixture) -> None:
    root = tmp_path / "runs"
    run = make(root)
    if where in ("backup", "a-backup"):
        shutil.copytree(root / "lab", root / where)
    else:
        shutil.copytree(run, run.with_name(f"{run.name}.bak" if where == "suffix" else f"Copy of {run.name} (2)"))
    archive = Directory(root).checked()
    assert [(one.seed, one.directory.parent.name) for one in archive.store] == [(1, "lab"), (2, "lab")]
    assert not archive.damaged and "count only once" in archive.unreadable[0]
    if where in ("backup", "a-backup"):
        assert len(Store.open(root)) == 2
    assert call("report", str(root), "-o", str(tmp_path / "x.html")) == 0
    assert "count only once" in capsys.readouterr().err


def test_a_copy_does_not_speak_for_a_damaged_run(tmp_path: Path) -> None:
    run = make(tmp_path)
    shutil.copytree(tmp_path / "lab", tmp_path / "backup")
    (run / "config.json").write_text("{}")
    archive = Directory(tmp_path).checked()
    assert [one.seed for one in archive.store] == [1] and [one.seed for one in archive.damaged] == [2]


def test_a_link_that_leads_outside_is_named_and_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere")
    make(tmp_path / "runs")
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "lab")
    archive = Directory(tmp_path / "runs")
    assert len(archive.store) == 2 and "linked is a symbolic link that leads outside" in archive.unreadable[0]
