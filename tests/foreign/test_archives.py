from __future__ import annotations

import io
import zipfile

import pytest

from kymograph.foreign.archives import check_listing


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
