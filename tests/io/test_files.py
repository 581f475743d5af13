from __future__ import annotations

import hashlib
import os
import socket
import time
from pathlib import Path

import pytest

from kymograph.errors import KymographError
from kymograph.io.files import (
    entries,
    file_digest,
    is_directory,
    is_directory_entry,
    is_file,
    opened,
    read_bytes,
    read_text,
    real_path,
)
from kymograph.runs.archive import Archive


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
    """``kymograph figure --from`` a link to itself used to end in an apology."""
    loop = tmp_path / "log.json"
    loop.symlink_to(loop)
    assert real_path(loop).name == "log.json"
    with pytest.raises(KymographError):
        Archive.open(loop)
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
