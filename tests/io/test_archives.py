from __future__ import annotations

import io
import struct
import zipfile

import pytest

from kymograph.io.files import check_listing


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
