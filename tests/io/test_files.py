"""Untrusted files, zip archives, and writes that must not leave a directory."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import stat
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kymograph._errors import KymographError
from kymograph._io import files as writes
from kymograph._io.files import (
    check_inside,
    check_listing,
    check_replaceable,
    entries,
    file_digest,
    is_directory,
    is_directory_entry,
    is_file,
    is_inside,
    opened,
    read_bytes,
    read_text,
    real_path,
)
from kymograph._io.writing import make_directory, write_atomically, written_atomically
from kymograph._runs.directory import Directory


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\x00numbers" * 1000)
    facts = {"bytes": 8000, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert read_bytes(path, 8000, recorded=facts) == path.read_bytes()
    assert file_digest(path, 8000) == facts["sha256"]
    with opened(path, 8000) as file:
        file.seek(1)
        assert file.read(7) == b"numbers"


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "directory", "link to a device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    server = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    started = time.monotonic()
    with pytest.raises(KymographError) as error:
        read_bytes("/dev/zero" if kind == "device" else path, 100)
    assert time.monotonic() - started < 1 and "not a file" in str(error.value)
    server.close()


def test_a_sparse_terabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 2**40)
    for read in (read_bytes, read_text, file_digest):
        with pytest.raises(KymographError, match="it was not read"):
            read(path, 2**20)


def test_a_link_is_followed_only_where_the_user_named_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_text(tmp_path / "link", 10) == "s"
    with pytest.raises(KymographError, match="symbolic link"):
        read_bytes(tmp_path / "link", 10, follow=False)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "absent", "file/below"])
def test_an_impossible_name_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert not is_file(tmp_path / name) and not is_directory(tmp_path / name)
    with pytest.raises(KymographError):
        read_bytes(tmp_path / name, 10)


def test_size_and_checksum_must_both_be_right(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    for facts in ({"bytes": 4, "sha256": digest}, {"bytes": 3, "sha256": "0" * 64}, {"sha256": digest}, {}):
        with pytest.raises(KymographError, match=r"edited.*; start over"):
            read_bytes(path, 10, recorded=facts, remedy="start over")


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(KymographError, match="not UTF-8 text"):
        read_text(tmp_path / "a", 10)
    assert read_text(tmp_path / "a", 10, errors="replace") == "��"


def test_links_in_a_circle_lead_nowhere_and_raise_nothing(tmp_path: Path) -> None:
    """``kymograph figure --dir`` a link to itself used to end in an apology."""
    loop = tmp_path / "log.json"
    loop.symlink_to(loop)
    assert real_path(loop).name == "log.json"
    with pytest.raises(KymographError):
        Directory(loop).checked()
    (tmp_path / "beside").symlink_to(tmp_path)
    assert real_path(tmp_path / "beside") == real_path(tmp_path)


def test_a_directory_is_listed_past_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "a").symlink_to(tmp_path / "circle")
    (tmp_path / "circle").symlink_to(tmp_path / "a")
    (tmp_path / "to-b").symlink_to(tmp_path / "b")
    assert [entry.name for entry in entries(tmp_path)] == ["a", "b", "circle", "file", "to-b"]
    assert [entry.name for entry in entries(tmp_path) if is_directory_entry(entry)] == ["b", "to-b"]


def archive(count: int) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for number in range(count):
            written.writestr(f"file-{number:05}", b"")
    return file


def test_the_list_of_an_archive_is_bounded_before_it_is_read() -> None:
    check_listing(archive(3), 3 * 56)
    with pytest.raises(ValueError):
        check_listing(archive(4), 3 * 56)
    with pytest.raises(ValueError):
        check_listing(io.BytesIO(b"no archive"), 1000)


def in_64_bits(file: io.BytesIO, declared: int = 0) -> io.BytesIO:
    """Moves the size of the central directory to a 64-bit record; the plain one says ``declared``."""
    content = file.getvalue()
    at = len(content) - 22
    start, size = (int.from_bytes(content[at + i : at + i + 4], "little") for i in (16, 12))
    extension = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    end = content[at : at + 12] + declared.to_bytes(4, "little") + content[at + 16 :]
    return io.BytesIO(content[:at] + extension + locator + end)


@pytest.mark.parametrize("declared", [0, 2**32 - 1])
def test_the_size_in_a_64_bit_record_counts(declared: int) -> None:
    file = in_64_bits(archive(4), declared)
    assert len(zipfile.ZipFile(file).namelist()) == 4
    check_listing(file, 4 * 56)
    assert len(zipfile.ZipFile(file).namelist()) == 4
    with pytest.raises(ValueError):
        check_listing(file, 3 * 56)


def test_a_64_bit_record_elsewhere_is_refused() -> None:
    content = in_64_bits(archive(1)).getvalue()
    with pytest.raises(ValueError):
        check_listing(io.BytesIO(content[:-42] + b"extra" + content[-42:]), 1000)


def test_a_size_that_looks_like_the_start_of_a_record_is_still_the_size() -> None:
    content = archive(1).getvalue()
    with pytest.raises(ValueError):
        check_listing(io.BytesIO(content[:-10] + b"PK\x05\x06" + content[-6:]), 1000)


def _bundle(path: Path) -> None:
    with written_atomically(path, readable=True) as file:
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
