"""Untrusted zip archives: the size of their central directory is checked before it is read."""

from __future__ import annotations

from typing import IO

_END = b"PK\x05\x06"
_LONGEST_END = 2**16 + 22


def check_listing(file: IO[bytes], most: int) -> None:
    """Raises ValueError if a file is not a zip archive, or if its central directory has more than ``most`` bytes.

    An entry takes a few bytes there and many times as much memory when read.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_END))
    end = file.read()
    offset = end.rfind(_END)
    if offset < 0 or int.from_bytes(end[offset + 12 : offset + 16], "little") > most:
        raise ValueError("not a zip archive, or one with too many files")
    file.seek(0)
