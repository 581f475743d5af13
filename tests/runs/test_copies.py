from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kymograph.runs.archive import Archive
from kymograph.runs.store import Store
from tests.cli.command import call
from tests.runs.test_typed_record import make


@pytest.mark.parametrize("where", ["backup", "a-backup", "suffix", "prefix"])
def test_a_backup_copy_counts_once(tmp_path: Path, where: str, capsys: pytest.CaptureFixture) -> None:
    root = tmp_path / "runs"
    run = make(root)
    if where in ("backup", "a-backup"):
        shutil.copytree(root / "lab", root / where)
    else:
        shutil.copytree(run, run.with_name(f"{run.name}.bak" if where == "suffix" else f"Copy of {run.name} (2)"))
    archive = Archive.open(root).checked()
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
    archive = Archive.open(tmp_path).checked()
    assert [one.seed for one in archive.store] == [1] and [one.seed for one in archive.damaged] == [2]


def test_a_link_that_leads_outside_is_named_and_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere")
    make(tmp_path / "runs")
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "lab")
    archive = Archive.open(tmp_path / "runs")
    assert len(archive.store) == 2 and "linked is a symbolic link that leads outside" in archive.unreadable[0]
