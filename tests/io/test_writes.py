from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.io import files as writes
from kymograph.io.files import check_inside, check_replaceable, is_inside
from kymograph.io.writing import make_directory, write_atomically
from kymograph.sharing.bundle import _written


def _bundle(path: Path) -> None:
    with _written(path) as file:
        file.write(b"x")


WRITERS: tuple[Callable[[Path], None], ...] = (lambda path: write_atomically(path, b"x"), _bundle)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path, write: Callable[[Path], None], through_a_link: bool) -> None:
    """As root, ``-o /dev/null`` used to leave a regular file in the place of the device; so did a link to it."""
    os.mkfifo(tmp_path / "pipe")
    target = tmp_path / "pipe"
    if through_a_link:
        target = tmp_path / "link"
        target.symlink_to("pipe")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(KymographError, match=f"cannot write {target}: it is a pipe, not a file; choose"):
        write(target)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert target.is_symlink() == through_a_link and sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("write", WRITERS)
def test_files_and_links_to_files_are_replaced(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "old").write_text("old")
    for name in ("link", "dangling", "old", "new"):
        write(tmp_path / name)
        assert (tmp_path / name).read_text().startswith("x") and not (tmp_path / name).is_symlink()
    assert (tmp_path / "kept").read_text() == "kept"


def test_no_name_among_the_devices_is_replaced_even_if_it_leads_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/dev/stdout`` is a link to whatever the output is, which may be a regular file."""
    devices = tmp_path / "dev"
    (devices / "shm").mkdir(parents=True)
    monkeypatch.setattr(writes, "_DEVICES", devices)
    (tmp_path / "output").write_text("printed")
    (devices / "stdout").symlink_to(tmp_path / "output")
    for write in WRITERS:
        with pytest.raises(KymographError, match=f"stdout: {devices} is for devices; choose another path"):
            write(devices / "stdout")
    assert (devices / "stdout").is_symlink()
    write_atomically(devices / "shm" / "x", b"x")


def test_a_link_that_leads_outside_is_named_and_one_that_stays_is_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "own").mkdir(parents=True)
    outside.mkdir()
    (root / "away").symlink_to(outside)
    (root / "inside").symlink_to("own")
    (tmp_path / "named").symlink_to(root)
    for start in (root, tmp_path / "named"):
        check_inside(start / "inside" / "x", start)
        make_directory(start / "inside" / "x", start)
        for path in (start / "away", start / "away" / "x"):
            with pytest.raises(KymographError, match=f"{start / 'away'} is a link that leads outside of {start}, "):
                make_directory(path, start)
    assert (root / "own" / "x").is_dir() and not any(outside.iterdir())
    (root / "dangling").symlink_to(tmp_path / "absent")
    with pytest.raises(KymographError, match="dangling is a link"):
        make_directory(root / "dangling", root)
    assert not (tmp_path / "absent").exists() and is_inside(root, root)


@pytest.mark.parametrize("check", [check_replaceable, lambda path: check_inside(path, path.parent)])
def test_a_null_byte_is_one_sentence(tmp_path: Path, check: Callable[[Path], None]) -> None:
    with pytest.raises(KymographError, match="is not a valid file name"):
        check(tmp_path / "a\0b" / "c")
    with pytest.raises(KymographError, match="is not a valid file name"):
        check(tmp_path / "a\0b")
